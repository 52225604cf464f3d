"""A server that speaks S3, on this machine, and what has everyone find it."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time

from pyarrow import fs

from processes import HANGS

BUCKET = "bucket"
MISSING = "there is no server that speaks S3; get one with: pip install 'moto[s3]' flask-cors"


def is_there():
    # Not all of moto[server], which brings twenty packages along for services other than S3.
    return all(importlib.util.find_spec(name) for name in ("moto", "flask_cors"))


def free_port(host="127.0.0.1"):
    with socket.socket() as free:
        free.bind((host, 0))
        return free.getsockname()[1]


def environment(host, port):
    """Return the variables by which pyarrow finds it, in this process and in others."""
    return {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "anything",
        "AWS_SECRET_ACCESS_KEY": "anything",
    }


def start(host, port):
    """Start it, empty, and wait until it answers."""
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet, start_new_session=True)
    for _ in range(10 * HANGS):
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0:
                return process
        assert process.poll() is None, "the server has ended"
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the server does not answer")


def make_bucket():
    files, bucket = fs.FileSystem.from_uri(f"s3://{BUCKET}?allow_bucket_creation=true")
    files.create_dir(bucket)
