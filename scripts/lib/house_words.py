"""Words that the field has better ones for, and what to write instead. scripts/lib/check-house looks for the first."""

# What users read and run beside the crates, and the simulation.
READ = ("README.md", "docs/", "examples/", "sim/")
# (pattern, instead, where: beginnings of paths, or "" for all)
WORDS = [
    (r"\btold_threshold\b", "cq_doorbell_batch", ""),
    (r"\buntold\b|\bexclusive_told\b", "unreported, reported", ""),
    (r"\b(?:struct|enum|Vec<) ?Told\b", "Reported", ""),
    (r"\b[Ss]eats?\b|SEAT|_seats?\b", "hazard slot", ""),
    (r"\bpace_?\b", "back-off, interval or rate", ""),
    (r"\b(?:a|each|every|per|empty) looks?\b", "poll", ("kernels/include/", *READ)),
    (r"[Cc]ompletion word", "completion slot", ""),
    (r"\b(?:Doorbell|Ring|Shadow|Queue)Reach\b", "mapping", ""),
    (r"(?<![A-Za-z])Descriptor\b", "data pointer (PRP, SGL)", ("crates/warpbell/", "kernels/include/", *READ)),
    (r"\bread_merged|\bwrite_merged|\bmerged_", "coalesced", ""),
    (r"\b[Bb]eds?\b", "test tier in documents, fixture in code", ""),
    (r"\b[Ww]itness", "protocol monitor", ""),
    (r"[Ss]tand[-_]?in\b", "fake driver", ""),
    (r"[Mm]ade[-_ ]up", "synthetic", ""),
    (r"\bgiv(?:en|ing|es?) back\b", "release", ""),
    (r"\bspares\b", "replacement queues", ("crates/warpbell", *READ)),
    (r"\bmail_box\b", "request queue", ""),
    (r"\bbox(?:es)?\b", "request queue", ("tests/tests/", "kernels/include/", *READ)),
    (r"\bLane\b", "PollGroup: a lane is a SIMT lane", "crates/softctl/"),
    (r"\bWARPBELL_QUEUE_GONE\b", "WARPBELL_STATUS_QUEUE_GONE", ""),
    (r"\bdeadline_ns\b", "timeout_ns: it is a duration", ""),
    (r"\bdeadline: (?:\w+::)*Duration\b", "timeout: a deadline is a point in time", ("crates/", "examples/", "kernels/")),
    (r"\bAttachOptions::tokens\b", "commands_per_lane", ""),
    (r"\btokens\b", "commands_per_lane", "crates/warpbell/"),
    (r"\breattach|\bmove_on\b", "switch_to_successor", ""),
    (r"[Ss]ummons", "pending reset", ""),
    (r"\bSized32\b", "versioned struct", ""),
]

# History, other people's words, and the headers of before that a test keeps.
EXEMPT = ("CHANGELOG.md", "Cargo.lock", "crates/capi/tests/previous/", "fuzz/corpus/", "fuzz/regressions/", "scripts/lib/house_words.py",
          "tests/fixtures/")
