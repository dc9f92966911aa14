//! Controllers behind sockets: one that is just being started, or that serves another client, is waited for.

use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use warpbell::{DeviceName, Error, OpenOptions, Ssd};
use warpbell_vfio::user::UserError;

use crate::exit::{Ending, INTERRUPTED};
use crate::interrupt;

/// How long a socket that nobody listens on is waited for: `serve` in the background may not have made it yet.
const START: Duration = Duration::from_secs(2);
/// How long the answer of a server takes before there is a word about it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two tries.
const NAP: Duration = Duration::from_millis(20);

/// Opens the device, after a wait with a word on stderr where there is something to wait for.
pub fn open(name: &DeviceName, options: &OpenOptions) -> Result<Ssd, Ending> {
    let begin = Instant::now();
    let told = Mutex::new(None);
    let say = |wait: Wait| {
        if told.lock().is_ok_and(|mut told| told.replace(wait) != Some(wait)) {
            eprintln!("waiting for {name}: {}", wait.words());
        }
    };
    loop {
        let error = match attempt(name, options, &say) {
            Ok(ssd) => return Ok(ssd),
            Err(error) => error,
        };
        let Some(wait) = Wait::of(&error).filter(|wait| !wait.is_over(begin)) else {
            return Err(error.into());
        };
        say(wait);
        if interrupt::asked() {
            return Err(Ending::new(INTERRUPTED, format!("{name}: interrupted while it was waited for")));
        }
        std::thread::sleep(NAP);
    }
}

/// One try, with a word where it takes long.
fn attempt(name: &DeviceName, options: &OpenOptions, say: &(impl Fn(Wait) + Sync)) -> Result<Ssd, Error> {
    if !matches!(name, DeviceName::VfioUser(_)) {
        return Ssd::open(name, options);
    }
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                say(Wait::Turn);
            }
        });
        let opened = Ssd::open(name, options);
        drop(done);
        opened
    })
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A server that is to listen.
    Start,
    /// The end of another client.
    Turn,
}

impl Wait {
    /// What may help against `error`.
    fn of(error: &Error) -> Option<Wait> {
        match error {
            Error::User(UserError::Connect { source, .. }) => match source.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => Some(Wait::Start),
                ErrorKind::WouldBlock => Some(Wait::Turn),
                _ => None,
            },
            Error::User(error) if error.is_unanswered() => Some(Wait::Turn),
            _ => None,
        }
    }

    fn is_over(self, begin: Instant) -> bool {
        self == Wait::Start && begin.elapsed() >= START
    }

    fn words(self) -> &'static str {
        match self {
            Wait::Start => "nobody listens there yet; gives up after two seconds",
            Wait::Turn => "its server serves another client, or hangs; goes on until it answers, or Ctrl-C",
        }
    }
}
