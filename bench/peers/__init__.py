"""How fast is splitpool beside other servers with the same weights, on one machine, in one run?"""
