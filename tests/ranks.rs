//! Ranks of a test: threads, or processes with `RANKS_ARE=processes`, for tests whose ranks share
//! nothing but a communicator.

use std::cell::Cell;
use std::env;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{self, Command, Stdio, exit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{__private, Communicator, DeviceFamily, Place, Result, Seat, Uninit, World};

/// How long the ranks of a test may take.
const LIMIT: Duration = Duration::from_secs(60);

thread_local! {
    /// How many times this test has run ranks.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Connects within a time of its own, so that a short deadline only counts from then on.
#[track_caller]
pub(crate) fn connect<W: World>(comm: Communicator<W, Uninit>) -> Result<Communicator<W>> {
    comm.start()?.ready().wait_until(Instant::now() + LIMIT)
}

/// [`typed_nccl::spmd`], in processes if they are asked for.
pub(crate) fn spmd<F: DeviceFamily>(
    n: usize,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<()> + Sync,
) -> Result<()> {
    let are_processes = env::var("RANKS_ARE").is_ok_and(|are| are == "processes");
    if !are_processes || n < 2 {
        return typed_nccl::spmd::<F>(n, body);
    }
    let call = CALLS.get();
    CALLS.set(call + 1);
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<usize>().ok());
    match (number("RANKS_CALL"), number("RANKS_RANK"), env::var_os("RANKS_FILE")) {
        (Some(this), Some(rank), Some(file)) if this == call => {
            let seat = Seat::file(file, rank, n)?;
            match __private::one_rank::<F>(seat, body) {
                Ok(()) => exit(0),
                Err(error) => {
                    eprintln!("rank {rank} failed: {error}");
                    exit(3)
                }
            }
        }
        (Some(_), ..) => typed_nccl::spmd::<F>(n, body),
        _ => {
            processes(n, call);
            Ok(())
        }
    }
}

/// A file where ranks meet, which is new: another test could take a free port before rank 0 listens.
pub(crate) fn place() -> PathBuf {
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let number = PLACES.fetch_add(1, Ordering::Relaxed);
    env::temp_dir().join(format!("typed-nccl-tests-{}-{number}", process::id()))
}

/// Runs this test again as `n` processes, each of which is one rank in the test's call.
fn processes(n: usize, call: usize) {
    let test = thread::current().name().expect("a test has a name").to_owned();
    let file = place();
    let start = |rank: usize| {
        let mut this = Command::new(env::current_exe().expect("this program"));
        this.args(["--exact", &test, "--nocapture"]);
        this.env("RANKS_CALL", call.to_string()).env("RANKS_RANK", rank.to_string());
        this.env("RANKS_FILE", &file).env("RUST_TEST_THREADS", "2");
        this.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = this.spawn().expect("this program starts");
        let mut said = child.stderr.take().expect("it is piped");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            let _ = said.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        (child, reader)
    };
    let mut ranks: Vec<_> = (0..n).map(start).collect();
    let started = Instant::now();
    let mut codes = vec![None; n];
    while codes.iter().any(Option::is_none) && started.elapsed() < LIMIT {
        for ((child, _), code) in ranks.iter_mut().zip(&mut codes) {
            if code.is_none() {
                *code = child.try_wait().expect("a child").map(|status| status.code());
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    let mut all = String::new();
    for (rank, ((mut child, reader), code)) in ranks.drain(..).zip(&codes).enumerate() {
        let _ = child.kill();
        let _ = child.wait();
        let said = reader.join().unwrap_or_default();
        if *code != Some(Some(0)) {
            all += &format!("rank {rank} ended with {code:?}: {said}\n");
        }
    }
    let _ = std::fs::remove_file(file);
    assert!(all.is_empty(), "{all}");
}

/// The suite with ranks in processes.
#[test]
fn what_threads_do_processes_do() {
    let tests = ["elements::", "ends", "groups", "split", "windows"];
    let limit = Duration::from_secs(400);
    crate::again::run("ranks", limit, |this| {
        // It names what failed.
        this.args(tests).arg("-q").env("RANKS_ARE", "processes").stdout(io::stderr())
    });
}
