//! Ranks as separate processes: starting them, and being one.

use std::fmt::Display;
use std::panic::resume_unwind;

use super::Place;
use super::launch::OnGpu;
use super::others::Others;
use crate::communicator::{self, Failure};
use crate::device::own_gpu;
use crate::error::{Error, LaunchFault};
use crate::launcher::{Found, Variables};
use crate::{Cuda, Result, Seat};

/// Runs the body as this process's rank, on its own GPU.
pub(super) fn this_rank<E: From<Error> + Display + 'static>(
    found: &Found,
    body: impl FnOnce(Place<OnGpu>) -> Result<(), E>,
) -> Result<(), E> {
    let no_gpu = |error: Error| {
        let why = match &error {
            Error::NoDriver(no) => format!("there is no CUDA driver ({})", no.why),
            Error::NoSuchDevice(_) => error.to_string(),
            _ => return error,
        };
        LaunchFault::NoGpu { launched: found.launched.clone(), why }.into()
    };
    let run = || {
        let device = own_gpu().and_then(Cuda::any).map_err(no_gpu)?;
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

/// Starts this program again as one process per GPU, and exits with them. Returns if it cannot.
#[cfg(unix)]
pub(super) fn ranks(asked: Option<usize>, others: Others) -> Error {
    match unix::commands(asked) {
        Ok(commands) => unix::run(commands, others),
        Err(error) => error,
    }
}

#[cfg(not(unix))]
pub(super) fn ranks(_: Option<usize>, _: Others) -> Error {
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
    use super::{OnGpu, Others};
    use crate::error::{Error, LaunchFault};
    use crate::launcher::{ADDRESS, LISTENER, LOCAL_RANK, RANK, SECRET, SIZE, TELLS};
    use crate::{Cuda, DeviceFamily, Result};

    fn no_process(what: &str, error: impl Display) -> Error {
        LaunchFault::NoProcess { why: format!("{what}: {error}") }.into()
    }

    pub(super) fn commands(asked: Option<usize>) -> Result<Vec<Command>> {
        let n = asked.map_or_else(Cuda::count, Ok)?.max(1);
        OnGpu::ordinals(n)?;
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
