//! Why a text cannot be run, and what a kernel did wrong.

use std::fmt;

/// A line of a text, and where the source is that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// The source's path and line; none where the text has no line information there.
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Line {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "`{}`", self.text)?;
        match &self.source {
            Some((path, line)) => write!(to, ", from {path}:{line}"),
            None => Ok(()),
        }
    }
}

/// A text that cannot be run, or a launch that a module cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not PTX.
    #[error("{file}:{line}: no PTX at {what}, in {said}")]
    Syntax {
        /// The name that the text was given.
        file: String,
        /// The line, from 1.
        line: u32,
        /// What was found.
        what: String,
        /// The whole line.
        said: Line,
    },
    /// PTX that the machine does not run.
    #[error("{file}:{line}: the PTX machine does not know {what}, in {said}")]
    Unknown {
        /// The name that the text was given.
        file: String,
        /// The line, from 1.
        line: u32,
        /// The instruction or the name.
        what: String,
        /// The whole line.
        said: Line,
    },
    /// A launch that the module cannot serve.
    #[error("{0}")]
    Launch(String),
    /// A kernel did what PTX does not define.
    #[error(transparent)]
    Found(#[from] Box<Finding>),
}

impl Error {
    pub(crate) fn syntax(file: &str, line: u32, what: &str) -> Error {
        Error::Syntax { file: file.to_owned(), line, what: what.to_owned(), said: Line::default() }
    }

    pub(crate) fn unknown(file: &str, line: u32, what: &str) -> Error {
        Error::Unknown { file: file.to_owned(), line, what: what.to_owned(), said: Line::default() }
    }

    /// The same with what its line says, and with the line of the source that `.loc` names there.
    pub(crate) fn of_text(mut self, text: &str) -> Error {
        if let Error::Syntax { line, said, .. } | Error::Unknown { line, said, .. } = &mut self {
            *said = line_of(text, *line);
        }
        self
    }
}

/// Found in the text itself: one that cannot be read to its end has no list of its files, which stands there.
fn line_of(text: &str, number: u32) -> Line {
    let until = number as usize;
    let own = text.lines().nth(until.saturating_sub(1)).unwrap_or_default().trim().to_owned();
    let before: Vec<&str> = text.lines().take(until).collect();
    // Lines before a function's own say nothing about it.
    let inside = before.iter().rev().take_while(|line| !line.contains(".entry") && !line.contains(".func"));
    let numbers = inside.filter_map(|line| line.trim().strip_prefix(".loc")).next();
    let source = numbers.and_then(|numbers| {
        let mut words = numbers.split_whitespace();
        let (file, line) = (words.next()?, words.next()?.parse().ok()?);
        let named = text.lines().filter_map(|line| line.trim().strip_prefix(".file"));
        let mut named = named.filter_map(|rest| rest.trim().split_once(char::is_whitespace));
        let path = named.find(|(number, _)| *number == file)?.1.split('"').nth(1)?;
        Some((path.to_owned(), line))
    });
    Line { text: own, source }
}

/// What is looked for while a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// An access of memory that no allocation has.
    Bounds,
    /// An address that is no multiple of the access's size.
    Alignment,
    /// A store to a device's registers by anything but `st.mmio`, of other than 4 bytes, or twice.
    Doorbell,
    /// A mask that leaves out the lane itself, or a shuffle from a lane that does not take part.
    Mask,
    /// Lanes wait for others that wait, too.
    Deadlock,
    /// `trap`
    Trap,
    /// A barrier in shared memory that was never initialized, or counts below zero.
    Barrier,
    /// `bar.sync` with a number above 15, or a count that is no multiple of 32.
    BlockBarrier,
    /// A register, or shared or local memory, that is read and was never written.
    Uninitialized,
    /// `.nc` of memory that the same grid writes.
    ReadOnly,
    /// Two accesses of one byte by two threads, of which one writes, and which nothing orders.
    Race,
    /// A load that polls a word, and never sees what was stored there since: it is weak, or of a scope without the writer,
    /// and PTX lets it read the old value for ever.
    Stale,
    /// A bulk copy of what others wrote to shared memory, without a fence of its proxy.
    Proxy,
    /// More calls than a lane's stack has room for.
    Stack,
}

/// What a kernel did that PTX does not define, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked for.
    pub check: Check,
    /// What was found, with the values.
    pub what: String,
    /// The kernel that was launched.
    pub kernel: String,
    /// The name of the PTX, the number of the line in it, and what the line says.
    pub ptx: (String, u32, String),
    /// The source's path and line; none where the module has no line information.
    pub source: Option<(String, u32)>,
    /// The block's number in the grid.
    pub block: u32,
    /// The thread's number in the block.
    pub thread: u32,
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, text) = &self.ptx;
        write!(to, "{file}:{line}: {}, by `{text}`", self.what)?;
        if let Some((path, line)) = &self.source {
            write!(to, ", from {path}:{line}")?;
        }
        let Finding { check, kernel, block, thread, .. } = self;
        write!(to, " (check {check:?}, kernel {kernel}, block {block}, thread {thread})")
    }
}

impl std::error::Error for Finding {}
