"""Which port is free, and is a given one taken?"""

import errno
import socket


class PortTaken(Exception):
    """Something listens there already; the message names the port and a free one."""


def free(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket(_family(host)) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def check(host: str, port: int) -> None:
    """Raises PortTaken, also where the address is none of this machine."""
    with socket.socket(_family(host)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except PermissionError:
            raise PortTaken(
                f"port {port} on {host} is reserved for the system; pass --port with 1024 or more"
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                remedy = f"stop what listens there, or pass --port {free()}"
            else:
                remedy = "pass --host with an address of this machine, such as 127.0.0.1"
            raise PortTaken(
                f"port {port} on {host} cannot be used ({error.strerror}); {remedy}"
            ) from None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
