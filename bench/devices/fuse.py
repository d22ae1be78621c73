"""Files with the read times of a device: a read-only file system in user space, of one folder.

Speaks the kernel's protocol itself (`linux/fuse.h`, 7.28 and later), so nothing has to be installed. Mounting
needs root. A loop device over such a file is a block device with known properties. It is only for measurements:
no writes, no folders, no links.
"""

import ctypes
import errno
import os
import struct
import threading

from .store import Model

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 36, 42,
)  # fmt: skip
ASYNC_READ, ASYNC_DIO, MAX_PAGES = 1 << 0, 1 << 15, 1 << 22
FOPEN_DIRECT_IO = 1
# Pages of a request: 1 MiB, the maximum without raising a limit of the system.
PAGES = 256
# Requests that are served at the same time.
THREADS = 64
ROOT = 1
MS_RDONLY_NOSUID_NODEV = 1 | 2 | 4
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)


class SlowFiles:
    """The files of `models`, by path, mounted in `folder` under their own names. Reads take as long as each file's
    model says."""

    def __init__(self, folder: str, models: dict[str, Model]):
        self.folder = folder
        self.files = [(os.path.basename(path).encode(), os.open(path, os.O_RDONLY), model) for path, model in models.items()]
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"coscan", folder.encode(), b"fuse", MS_RDONLY_NOSUID_NODEV, options):
            raise OSError(ctypes.get_errno(), "cannot mount a file system in user space, which wants root", folder)
        for _ in range(THREADS):
            threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Unmounts."""
        libc.umount2(self.folder.encode(), MNT_DETACH)
        os.close(self.device)
        for _, file, _ in self.files:
            os.close(file)

    def _serve(self) -> None:
        while True:
            try:
                message = os.read(self.device, 1 << 17)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # Unmounted.
            _, operation, unique, node = struct.unpack_from("<IIQQ", message)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                answer, error = self._answer(operation, node, message[40:]), 0
            except OSError as failed:
                answer, error = b"", failed.errno
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(answer), -error, unique) + answer)
            except OSError as failed:
                if failed.errno != errno.ENOENT:  # The request was abandoned.
                    return

    def _answer(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == INIT:
            _, minor, ahead, flags = struct.unpack_from("<IIII", body)
            wanted = flags & (ASYNC_READ | ASYNC_DIO | MAX_PAGES)
            return struct.pack("<IIIIHHIIHH32x", 7, min(minor, 31), ahead, wanted, 128, 96, 4096, 1, PAGES, 0)
        if operation == LOOKUP:
            name = body.split(b"\0", 1)[0]
            found = next((at for at, file in enumerate(self.files) if file[0] == name), None)
            if found is None:
                raise OSError(errno.ENOENT, "no such file")
            return struct.pack("<QQQQII", found + 2, 0, 60, 60, 0, 0) + self._attributes(found + 2)
        if operation == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self._attributes(node)
        if operation == OPEN:
            return struct.pack("<QII", 0, FOPEN_DIRECT_IO, 0)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            _, file, model = self.files[node - 2]
            data = os.pread(file, size, offset)
            model.wait(offset, offset + len(data))
            return data
        if operation == STATFS:
            return struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        if operation in (RELEASE, FLUSH):
            return b""
        raise OSError(errno.ENOSYS, "not supported")

    def _attributes(self, node: int) -> bytes:
        size, mode, links = 0, 0o40755, 2
        if node != ROOT:
            size, mode, links = os.fstat(self.files[node - 2][1]).st_size, 0o100444, 1
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)
