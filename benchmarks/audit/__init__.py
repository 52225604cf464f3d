"""Does the audit find planted wrong labels, does fixing them help, are probabilities believable?"""
