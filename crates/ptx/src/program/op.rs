//! Instructions as the machine runs them: names are resolved to registers, offsets and steps.

use crate::text::{Place, Space};

/// A register of a frame; constants stand behind the function's own.
pub(crate) type Reg = u32;
/// Always zero.
pub(crate) const ZERO: Reg = 0;
/// Where the frame's local memory begins.
pub(crate) const LOCAL: Reg = 1;
/// Where the frame's parameters begin.
pub(crate) const PARAMETERS: Reg = 2;
/// The first that a function declares.
pub(crate) const FIRST: Reg = 3;

pub(crate) type One = fn(u64) -> u64;
pub(crate) type Two = fn(u64, u64) -> u64;
pub(crate) type Three = fn(u64, u64, u64) -> u64;
pub(crate) type Four = fn(u64, u64, u64, u64) -> u64;

/// Who sees an order, from few to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Gpu,
    System,
}

/// PTX ISA 9.0, section 8.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    /// Relaxed, exactly once, and as wide as written.
    Mmio,
}

/// What an access of memory says beside its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) order: Order,
    pub(crate) scope: Scope,
    /// Of one element.
    pub(crate) bytes: u8,
    pub(crate) elements: u8,
    /// `.nc`: nothing writes it while the kernel runs.
    pub(crate) read_only: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Reg,
    pub(crate) offset: i64,
}

/// How a loaded element becomes a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widen {
    /// Bits of the sign, none of an unsigned element.
    pub(crate) sign_from: u8,
    /// Bits of the register.
    pub(crate) bits: u8,
}

/// Atomics with one operand take it as `b`; `Cas` compares with `b` and writes `c`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rmw {
    /// What is written, of what was read and the operand.
    Of(Two),
    Cas,
}

/// What lanes exchange where they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// `bar.warp.sync`
    Wait,
    Ballot,
    Any,
    All,
    Uniform,
    /// `match.any`, of 32 or 64 bits.
    MatchAny,
    MatchAll,
    Shuffle(Shuffle),
    /// `redux.sync`
    Reduce(Fold),
    Elect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Add,
    And,
    Or,
    Xor,
    Least { signed: bool },
    Greatest { signed: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Butterfly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// 0 to 2: x, y, z.
    Thread(u8),
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    MaskEqual,
    MaskLess,
    MaskLessEqual,
    MaskGreater,
    MaskGreaterEqual,
    GlobalTimer,
    Clock,
    Clock64,
    SharedBytes,
    DynamicSharedBytes,
    GridId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    AcquireRelease(Scope),
    SequentiallyConsistent(Scope),
    /// Between the generic and the asynchronous proxy.
    Proxy,
}

/// `mbarrier` (PTX ISA 9.0, section 9.7.13.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mbarrier {
    Init,
    Invalidate,
    /// `b` arrivals, and `c` bytes more to come.
    Arrive,
    ExpectBytes,
    /// Of the phase that `b`, a state or a parity, names.
    Test {
        parity: bool,
    },
}

/// `size` bytes from global to shared memory or back; the barrier counts them where there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) to_shared: bool,
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) size: Reg,
    pub(crate) barrier: Option<Address>,
    /// `cp.async.bulk`
    pub(crate) bulk: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    One {
        run: One,
        to: Reg,
        a: Reg,
    },
    Two {
        run: Two,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Three {
        run: Three,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Four {
        run: Four,
        to: Reg,
        of: [Reg; 4],
    },
    /// `b|a` of two registers of so many bits.
    Pack {
        to: Reg,
        from: [Reg; 4],
        count: u8,
        bits: u8,
    },
    Unpack {
        to: [Option<Reg>; 4],
        from: Reg,
        count: u8,
        bits: u8,
    },
    Special {
        to: Reg,
        which: Special,
    },
    Load {
        access: Access,
        widen: Widen,
        to: [Option<Reg>; 4],
        at: Address,
    },
    Store {
        access: Access,
        from: [Reg; 4],
        at: Address,
    },
    Atomic {
        access: Access,
        rmw: Rmw,
        widen: Widen,
        to: Option<Reg>,
        at: Address,
        b: Reg,
        c: Reg,
    },
    Fence(Fence),
    Jump(u32),
    /// To the entry of a table of steps that the register counts.
    Table {
        index: Reg,
        table: u32,
    },
    Call {
        function: u32,
        arguments: u32,
    },
    Return,
    Exit,
    Trap,
    /// `bar.sync`: so many threads, all of the block's where `count` is zero.
    Barrier {
        id: Reg,
        count: Reg,
        waits: bool,
        aligned: bool,
    },
    Meet {
        meeting: Meeting,
        mask: Reg,
        to: Option<Reg>,
        also: Option<Reg>,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    ActiveMask(Reg),
    Sleep,
    Mbarrier {
        what: Mbarrier,
        to: Option<Reg>,
        at: Address,
        b: Reg,
        c: Reg,
    },
    Copy(Transfer),
    /// The end of a group of copies.
    Commit {
        bulk: bool,
    },
    /// Until the lane's copies are done, but for those of so many groups; all of them where there is no number.
    WaitCopies {
        bulk: bool,
        but: Option<Reg>,
    },
    /// An arrival at a barrier once the lane's copies of before are done; `counted`: the barrier awaits one more by it.
    ArriveBehindCopies {
        at: Address,
        counted: bool,
    },
    /// The register whose mark this is must have been written.
    Wanted(Reg),
    /// It is.
    Written(Reg),
    Nothing,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) guard: Option<(Reg, bool)>,
    pub(crate) op: Op,
}

/// Which bytes of parameters a call hands over and takes back: from, to, bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) give: Vec<(u32, u32, u32)>,
    pub(crate) take: Vec<(u32, u32, u32)>,
}

/// A function with a body.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) places: Vec<Place>,
    /// All registers of a fresh frame: zeroes, then constants.
    pub(crate) registers: Vec<u64>,
    /// Bytes of a frame: its own, and results, parameters and what it gives to calls.
    pub(crate) local_bytes: u32,
    pub(crate) parameter_bytes: u32,
    /// The widest alignment of what lies in its frame.
    pub(crate) align: u32,
    pub(crate) arguments: Vec<Arguments>,
    pub(crate) tables: Vec<Vec<u32>>,
    /// Marks of registers that some path reads before it wrote them, and their names.
    pub(crate) marked: Vec<(Reg, String)>,
}

impl Function {
    /// One without steps, whose registers are those that every function has.
    pub(crate) fn new(name: String) -> Function {
        Function {
            name,
            steps: Vec::new(),
            places: Vec::new(),
            registers: vec![0; FIRST as usize],
            local_bytes: 0,
            parameter_bytes: 0,
            align: 16,
            arguments: Vec::new(),
            tables: Vec::new(),
            marked: Vec::new(),
        }
    }
}
