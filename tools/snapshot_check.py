#!/usr/bin/env python3
"""Reads a memory snapshot as PyTorch's tools do and checks its invariants. Takes a second.

    tools/snapshot_check.py SNAPSHOT PEAK_BYTES END_BYTES BLOCKS EVENTS

Standard library only. Exits with 1 and a message where an invariant is broken.
"""

import pickle
import pickletools
import sys

# The opcodes that PyTorch's viewer in the browser can read.
OPCODES = {
    "PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "BININT1", "BININT2",
    "LONG1", "NEWFALSE", "TUPLE2", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "STOP",
}
MOST_APPENDED = 1_000


def check(holds, sentence):
    if not holds:
        sys.exit(f"error: {sentence}")


def check_opcodes(data):
    """Checks for opcodes that the viewer does not know, and for long lists in one piece."""
    since_mark = []
    for opcode, _, _ in pickletools.genops(data):
        check(opcode.name in OPCODES, f"the viewer does not know opcode {opcode.name}")
        if opcode.name == "MARK":
            since_mark.append(0)
        elif opcode.name in ("APPENDS", "SETITEMS"):
            check(since_mark.pop() <= MOST_APPENDED, "too much is appended at once")
            # A dict within a list is one item of it.
        elif opcode.name == "EMPTY_DICT" and since_mark:
            since_mark[-1] += 1


def check_segments(snapshot, end_bytes):
    """Checks that blocks are contiguous and sum up; returns the addresses of live blocks."""
    alive = {}
    ends = 0
    for segment in sorted(snapshot["segments"], key=lambda segment: segment["address"]):
        check(segment["address"] >= ends, "segments overlap")
        ends = segment["address"] + segment["total_size"]
        address = segment["address"]
        active = 0
        for block in segment["blocks"]:
            check(block["address"] == address, "blocks are not contiguous")
            check(block["size"] > 0, "an empty block")
            address += block["size"]
            if block["state"] == "active_allocated":
                check(block["requested_size"] == block["size"], "requested is not held")
                check(block["address"] not in alive, "an address comes twice")
                alive[block["address"]] = block["size"]
                active += block["size"]
                check(block["frames"], "a block without frames")
        check(address == ends, "blocks do not sum up to the segment")
        for key in ("allocated_size", "active_size", "requested_size"):
            check(segment[key] == active, f"{key} is not the sum of the blocks")
        check(segment["segment_type"] in ("large", "small"), "an unknown type of segment")
        check(segment["segment_pool_id"] == (0, 0), "a pool of its own")
    check(sum(alive.values()) == end_bytes, "what is alive at the end is not what the timeline says")
    return alive


def check_trace(trace, segments, peak_bytes, blocks, events):
    """Replays the events; returns the addresses of live blocks at the end."""
    live, requested = {}, {}
    in_use = peak = allocs = moment = 0
    categories, times = set(), set()
    at_moment = []
    for entry in trace:
        action, addr, size = entry["action"], entry["addr"], entry["size"]
        check(entry["time_us"] >= moment, "time runs backwards")
        moment = entry["time_us"]
        times.add(moment)
        if "category" in entry:
            categories.add(entry["category"])
        if action == "segment_alloc":
            check(not live, "a segment after its blocks")
        elif action == "alloc":
            check(addr not in live, "an address is given out twice")
            inside = any(at <= addr and addr + size <= at + total for at, total in segments)
            check(inside, "a block outside of every segment")
            live[addr] = size
            in_use += size
            allocs += 1
        elif action == "free_requested":
            check(live.get(addr) == size, "a free of what is not there")
            requested[addr] = size
        elif action == "free_completed":
            check(requested.pop(addr, None) == size, "a free that was not requested")
            in_use -= live.pop(addr)
        else:
            sys.exit(f"error: unknown action {action}")
        peak = max(peak, in_use)
        for frame in entry["frames"]:
            check(set(frame) == {"name", "filename", "line"} and frame["line"] == 0, "a crooked frame")
    check(not requested, "a free that was not completed")
    check("unknown" in categories, "the viewer fails without the category `unknown`")
    check(peak == peak_bytes, f"the peak is {peak}, not {peak_bytes}")
    check(allocs == blocks, f"{allocs} blocks, not {blocks}")
    check(len(times) <= events, "more moments than events")
    return live


def main():
    path, *numbers = sys.argv[1:]
    peak_bytes, end_bytes, blocks, events = map(int, numbers)
    with open(path, "rb") as file:
        data = file.read()
    check_opcodes(data)
    snapshot = pickle.loads(data)
    check(set(snapshot) == {"segments", "device_traces", "allocator_settings"}, "keys are missing or too many")
    alive = check_segments(snapshot, end_bytes)
    segments = [(segment["address"], segment["total_size"]) for segment in snapshot["segments"]]
    live = check_trace(snapshot["device_traces"][0], segments, peak_bytes, blocks, events)
    check(live == alive, "the trace does not lead to the segments")
    print(f"{path}: {len(data)} bytes, {blocks} blocks, {len(segments)} segments")


if __name__ == "__main__":
    main()
