//! Ranks as separate processes: starting them, and being one.

use std::fmt::Display;
use std::panic::resume_unwind;

use super::Place;
use super::others::Others;
use crate::communicator::{self, Failure};
use crate::error::Error;
#[cfg(not(unix))]
use crate::error::LaunchFault;
use crate::launcher::{Found, Variables};
use crate::{Device, Result, Seat};

/// Runs the body as this process's rank, on its own device.
pub(super) fn this_rank<D: Device, R, E: From<Error> + Display + 'static>(
    found: &Found,
    device: impl FnOnce() -> Result<D>,
    body: impl FnOnce(Place<D>) -> Result<R, E>,
) -> Result<R, E> {
    let run = || {
        let device = device()?;
        body(Place::new(Seat::of(found, &Variables::here())?, device))
    };
    #[cfg(unix)]
    super::tells::begin();
    let tell = |failure: Failure<'_, E>| {
        #[cfg(unix)]
        super::tells::fail(&failure, found.launched.rank as usize);
        #[cfg(not(unix))]
        let _ = failure;
    };
    communicator::body(run, tell).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Starts this program again as `n` processes, a rank each, with this value of `TYPED_NCCL`, and
/// exits with them. Returns if it cannot.
#[cfg(unix)]
pub(super) fn ranks(n: usize, each: Option<&str>, others: Others) -> Error {
    match unix::commands(n, each) {
        Ok(commands) => unix::run(commands, others),
        Err(error) => error,
    }
}

#[cfg(not(unix))]
pub(super) fn ranks(_: usize, _: Option<&str>, _: Others) -> Error {
    let why = "this system is no Unix; start them by another launcher".to_owned();
    LaunchFault::NoProcess { why }.into()
}

#[cfg(unix)]
mod unix {
    use std::fmt::{Display, Write as _};
    use std::fs::File;
    use std::io::{self, Read};
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::super::processes::{Signals, Sink, Watch, inherit};
    use super::Others;
    use crate::Result;
    use crate::error::{Error, LaunchFault};
    use crate::launcher::{ADDRESS, LISTENER, LOCAL_RANK, RANK, SECRET, SIZE, TELLS};

    fn no_process(what: &str, error: impl Display) -> Error {
        LaunchFault::NoProcess { why: format!("{what}: {error}") }.into()
    }

    pub(super) fn commands(n: usize, each: Option<&str>) -> Result<Vec<Command>> {
        let program = std::env::current_exe().map_err(|error| no_process("this program", error))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|error| no_process("a port", error))?;
        let address = listener.local_addr().map_err(|error| no_process("a port", error))?;
        let secret = secret().map_err(|error| no_process("/dev/urandom", error))?;
        let command = |rank: usize| {
            let mut command = Command::new(&program);
            let mut arguments = std::env::args_os();
            if let Some(name) = arguments.next() {
                command.arg0(name);
            }
            command.args(arguments);
            for variable in ["TYPED_NCCL", LISTENER, TELLS] {
                command.env_remove(variable);
            }
            if let Some(each) = each {
                command.env("TYPED_NCCL", each);
            }
            let rank = rank.to_string();
            command.env(RANK, &rank).env(LOCAL_RANK, &rank).env(SIZE, n.to_string());
            command.env(ADDRESS, address.to_string()).env(SECRET, &secret);
            command
        };
        let mut commands: Vec<Command> = (0..n).map(command).collect();
        if let Some(first) = commands.first_mut() {
            first.env(LISTENER, listener.as_raw_fd().to_string());
            inherit(first, listener.into());
        }
        Ok(commands)
    }

    /// Ends this process with the ranks' exit code.
    pub(super) fn run(commands: Vec<Command>, others: Others) -> Error {
        let signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return no_process("handlers of signals", error),
        };
        match Watch::start(commands, Sink::own(), others) {
            Ok(watch) => std::process::exit(watch.watch(|| signals.take())),
            Err(error) => no_process("this program", error),
        }
    }

    /// A secret of 32 random bytes.
    fn secret() -> io::Result<String> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }
}
