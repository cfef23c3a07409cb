"""stub"""


def as_yaml() -> str:
    return ""
