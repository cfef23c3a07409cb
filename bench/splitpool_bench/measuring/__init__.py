"""How is a server measured: which requests, when, for how long, and can the figures be trusted?"""
