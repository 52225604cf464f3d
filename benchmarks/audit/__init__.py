"""How well the audit finds planted wrong labels, what fixing them gains, and calibration."""
