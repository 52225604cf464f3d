"""What is asked of the machine: files, memory and devices."""
