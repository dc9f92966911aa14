"""Programs that a run starts: all that they started ends with it."""

import os
import pathlib
import signal
import subprocess
import threading
import time

# What was asked to end has so long to clean up.
PATIENCE_S = 10


class Ended(Exception):
    """The run is being ended, and nothing begins any more."""


class Children:
    """Each has a session of its own, as `timeout` and cargo-nextest give what they start other process groups."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.ended = False

    def run(self, command, **how):
        """Runs a program to its end; returns its exit code."""
        with self.lock:
            if self.ended:
                raise Ended
            child = subprocess.Popen(command, start_new_session=True, **how)
            self.running.add(child)
        code = child.wait()
        with self.lock:
            self.running.discard(child)
        return code

    def end(self):
        """Ends what runs; kills what does not end by itself."""
        with self.lock:
            self.ended = True
            sessions = {child.pid for child in self.running}
        for word in (signal.SIGTERM, signal.SIGKILL):
            send(word, members(sessions))
            until = time.monotonic() + PATIENCE_S
            while members(sessions) and time.monotonic() < until:
                time.sleep(0.05)


def send(word, processes):
    for process in processes:
        try:
            os.kill(process, word)
        except ProcessLookupError:
            pass  # it has ended


def members(sessions):
    """Processes of these sessions that have not ended."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the name, which may have anything in it: state, parent, group, session.
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has ended
        if int(session) in sessions and state != "Z":
            found.append(int(stat.parent.name))
    return found
