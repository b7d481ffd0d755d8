//! Ranks on threads, under a watchdog.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use typed_nccl::{AnyDevice, CommConfig, Communicator, Host, Seat, Stream, Uninit};

use crate::ranks;

pub(crate) type Dev = Host<AnyDevice>;
pub(crate) type Comm = Communicator<Dev>;

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(60);

/// How long an immediate effect may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Runs a test on its own thread; a deadlock fails it.
pub(crate) fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, over) = channel();
    let thread = thread::spawn(move || {
        body();
        done.send(()).expect("heard");
    });
    match over.recv_timeout(LIMIT) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    }
}

/// Runs each rank's part on its own thread; a deadlock fails the test.
pub(crate) fn pair(
    first: impl FnOnce(Seat) + Send + 'static,
    second: impl FnOnce(Seat) + Send + 'static,
) {
    let [a, b] = seats();
    watched(move || {
        thread::scope(|scope| {
            let parts = [scope.spawn(move || first(a)), scope.spawn(move || second(b))];
            let panics = parts.map(|part| part.join().err());
            if let Some(panic) = panics.into_iter().flatten().next() {
                resume_unwind(panic);
            }
        });
    });
}

pub(crate) fn seats<const N: usize>() -> [Seat; N] {
    let seats = Seat::local(N);
    seats.try_into().unwrap_or_else(|_| panic!("{N} seats"))
}

pub(crate) fn device(rank: usize) -> Dev {
    Host::any(rank as u32).expect("a host device")
}

pub(crate) fn connect(seat: Seat) -> Comm {
    let device = device(seat.rank().index());
    seat.init(device).expect("init")
}

/// A communicator to connect, with a deadline of `millis`.
pub(crate) fn build(seat: Seat, millis: u64) -> Communicator<Dev, Uninit> {
    let device = device(seat.rank().index());
    let config = CommConfig::builder().deadline(Duration::from_millis(millis)).build();
    Communicator::builder().seat(seat).device(device).config(config).build()
}

/// Connects, and then has a deadline of `millis`.
pub(crate) fn impatient(seat: Seat, millis: u64) -> Comm {
    ranks::connect(build(seat, millis)).expect("init")
}

pub(crate) fn alone() -> Comm {
    let [seat] = seats();
    connect(seat)
}

/// Closures that keep workers busy until they are released.
pub(crate) struct Busy {
    gates: Vec<std::sync::mpsc::Sender<()>>,
    _streams: Vec<Stream<Dev>>,
}

impl Busy {
    /// One per core, less `but`.
    pub(crate) fn all_but(device: &Dev, but: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (mut gates, mut streams) = (Vec::new(), Vec::new());
        for _ in but..cores {
            let (gate, wait) = channel::<()>();
            let (inside, started) = channel::<()>();
            let stream = device.stream().expect("stream");
            let work = move |(), ()| {
                inside.send(()).expect("heard");
                wait.recv().ok();
            };
            stream.launch((), work).expect("launched");
            started.recv().expect("it runs");
            gates.push(gate);
            streams.push(stream);
        }
        Self { gates, _streams: streams }
    }

    pub(crate) fn let_go(self) {
        drop(self.gates);
    }
}

/// Whether `body` panicked.
pub(crate) fn panics(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}
