"""Words that the field has better ones for, and what to write instead. scripts/lib/check-house looks for the first."""

# What users read and run beside the crates, and the simulation.
READ = ("README.md", "docs/", "examples/", "sim/")
# (pattern, instead, where: beginnings of paths, or "" for all; what the pattern must find)
WORDS = [
    (r"\btold_threshold\b", "cq_doorbell_batch", "", "told_threshold"),
    (r"\buntold\b|\bexclusive_told\b", "unreported, reported", "", "untold"),
    (r"\b(?:struct|enum|Vec<) ?Told\b", "Reported", "", "struct Told"),
    (r"\bself\.told\b|\bHeadNeverTold\b", "reported", "crates/driver/", "self.told"),
    (r"\b[Ss]eats?\b|SEAT|_seats?\b", "hazard slot", "", "seats"),
    (r"\bpace_?\b", "back-off, interval or rate", "", "pace"),
    (r"\b(?:a|each|every|per|empty) looks?\b", "poll", ("kernels/include/", *READ), "every look"),
    (r"\bEAGER_LOOKS\b|\brecovery\(\)\.look\b|\bRecovery::look\b", "poll", "", "ssd.recovery().look()"),
    (r"[Cc]ompletion word", "completion slot", "", "completion word"),
    (r"\b(?:Doorbell|Ring|Shadow|Queue)?Reach(?:ed)?\b", "mapping", "crates/", "QueueReach"),
    (r"(?<![A-Za-z])Descriptor\b", "data pointer (PRP, SGL)", ("crates/warpbell/", "kernels/include/", *READ), "Descriptor"),
    (r"\bread_merged|\bwrite_merged|\bmerged_", "coalesced", "", "read_merged"),
    (r"\b[Bb]eds?\b", "test tier in documents, fixture in code", "", "bed"),
    (r"\b[Ww]itness", "protocol monitor", "", "witness"),
    (r"[Ss]tand[-_]?in\b", "fake driver", "", "stand-in"),
    (r"[Mm]ade[-_ ]up", "synthetic", "", "made up"),
    (r"\b[Gg]iv(?:en|ing|es?) (?:\w+ ){0,4}back\b", "release, return", "", "gives its id back"),
    (r"\bspares\b", "replacement queues", ("crates/warpbell", *READ), "spares"),
    (r"\bmail_box\b", "request queue", "", "mail_box"),
    (r"\bbox(?:es)?\b", "request queue", ("tests/tests/", "kernels/", "crates/workload/", *READ), "boxes"),
    (r"\bLane\b", "PollGroup: a lane is a SIMT lane", "crates/softctl/", "Lane"),
    (r"\bWARPBELL_QUEUE_GONE\b", "WARPBELL_STATUS_QUEUE_GONE", "", "WARPBELL_QUEUE_GONE"),
    (r"\bdeadline_ns\b", "timeout_ns: it is a duration", "", "deadline_ns"),
    (r"\bdeadline: (?:\w+::)*Duration\b", "timeout: a deadline is a point in time", ("crates/", "examples/", "kernels/"), "deadline: std::time::Duration"),
    (r"\bAttachOptions::tokens\b", "commands_per_lane", "", "AttachOptions::tokens"),
    (r"\btokens\b", "commands_per_lane", "crates/warpbell/", "tokens"),
    (r"\breattach|\bmove_on\b", "switch_to_successor", "", "reattach"),
    (r"[Ss]ummons", "pending reset", "", "summons"),
    (r"\bSized32\b", "versioned struct", "", "Sized32"),
]

# History, other people's words, and the headers of before that a test keeps.
EXEMPT = ("CHANGELOG.md", "Cargo.lock", "crates/capi/tests/previous/", "fuzz/corpus/", "fuzz/regressions/", "scripts/lib/house_words.py",
          "tests/fixtures/")
