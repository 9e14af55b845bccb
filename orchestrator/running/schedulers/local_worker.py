"""A local worker: trains one pack after the other and sends the results over its connection.

The driver sends the work of a pack with CUDA_VISIBLE_DEVICES, which is empty if packs need no GPU. The worker sends the
messages of `train_pack.PackReporter`. When the driver has recorded an `evaluation`, it answers with one byte. The last
message of a pack is `completion`, `death` with the fields of a `Death`, or `full_disk` with a message for the user.
"""

import json
import os
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.errors import OutOfSpace
from orchestrator.machine.exhaustion import convert_full_disk_errors
from orchestrator.record.files.recorded_modules import list_imported_files, map_copies
from orchestrator.running.pack.retries import make_death
from orchestrator.running.pack.train_pack import PackReporter, decode_work, train_pack
from orchestrator.running.pack.watchdog import Watchdog, prepare_stack_file


def encode_message(kind: str, content: Any) -> bytes:
    """Return a message as bytes: its kind, a new line, and its content, JSON unless it is bytes."""
    return f"{kind}\n".encode() + (content if isinstance(content, bytes) else json.dumps(content).encode())


def decode_message(message: bytes) -> tuple[str, Any]:
    """Return the kind and the content of a message; the content of an evaluation stays bytes."""
    kind, _, content = message.partition(b"\n")
    return kind.decode(), content if kind == b"evaluation" else json.loads(content)


def serve_packs(descriptor: int) -> None:
    """Train the packs that the driver sends until it closes the connection."""
    connection: Connection[bytes, bytes] = Connection(descriptor)

    def send(kind: str, content: Any) -> None:
        """Send a message; after an evaluation wait until the driver has recorded it."""
        try:
            connection.send_bytes(encode_message(kind, content))
            if kind == "evaluation":
                connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise DriverGone from error

    # An exception ends only its pack; a closed connection, or a signal, ends the worker.
    try:
        while True:
            text, _, gpu_slot = connection.recv_bytes().decode().partition("\n")
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu_slot
            work = decode_work(text)
            try:
                with (
                    convert_full_disk_errors(Path(work.folder)),
                    Watchdog(work.heartbeat_timeout, prepare_stack_file(work)) as watchdog,
                ):
                    train_pack(work, PackReporter(work, send, watchdog))
            except OutOfSpace as error:
                send("full_disk", str(error))
            except (KeyboardInterrupt, DriverGone):
                raise
            except BaseException as error:
                send("death", asdict(make_death(error, list_imported_files(work.modules), map_copies(work.modules))))
            else:
                send("completion", None)
    except (DriverGone, EOFError, OSError):
        os._exit(0)  # the driver is gone


class DriverGone(BaseException):
    """The driver has closed the connection. Differs from EOFError, which a pack may raise by itself."""
