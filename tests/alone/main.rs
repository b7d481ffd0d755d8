//! Programs that own their process: the report when every one of its threads waits, with deadlines
//! of ten minutes. Each is a program as users write it, `main` with `launch!`, run again by name.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Device, Error, Host, Ordered, Result, Seat, Sum, World,
    launch, spmd, tag,
};

#[path = "../again.rs"]
mod again;
mod awake;

type Program = (&'static str, fn() -> Result<()>, fn() -> String);

const PROGRAMS: [Program; 16] = [
    ("a_communicator_that_nobody_has", forgotten::run, forgotten::says),
    ("calls_of_two_communicators", crossed::run, crossed::says),
    ("keys_that_differ", keys::run, keys::says),
    ("keys_that_differ_on_threads_of_their_own", keys_on_threads::run, keys_on_threads::says),
    ("a_request_that_waits_for_another", inside::run, inside::says),
    ("a_rank_that_connects_while_the_other_waits", connects::run, connects::says),
    ("every_thread_waits_and_a_closure_works", working::run, String::new),
    ("another_thread_makes_the_call", helped::run, String::new),
    ("threads_that_wait_for_threads", handed::run, String::new),
    ("a_thread_that_waits_for_a_signal", awake::for_a_signal, String::new),
    ("a_thread_that_waits_for_a_process", awake::for_another_process, String::new),
    ("a_thread_in_a_debugger", awake::in_a_debugger, String::new),
    ("a_debugger_after_ranks", awake::in_a_debugger_after_other_ranks, String::new),
    ("a_thread_that_waits_in_other_ways", awake::in_other_ways, String::new),
    ("a_rank_that_connects_again_later", awake::until_it_tries_again, String::new),
    ("a_rank_that_finishes_again_later", awake::until_it_finishes, String::new),
];

fn main() {
    if std::env::var_os("TSAN_OPTIONS").is_some() {
        // ThreadSanitizer checks memory now and then, so it always has a running thread.
        println!("not under ThreadSanitizer, which has a thread of its own");
        return;
    }
    let wanted = std::env::args().nth(1);
    let inside = std::env::var_os("TYPED_NCCL").is_some();
    for (name, run, says) in PROGRAMS {
        match &wanted {
            Some(wanted) if inside && wanted == name => {
                let told = run().map_or_else(|error| error.to_string(), |()| String::new());
                assert_eq!(told, says());
                return;
            }
            Some(wanted) if !wanted.starts_with('-') && !name.contains(wanted.as_str()) => {}
            _ => {
                again::run(name, again::LIMIT, |this| this.arg(name).env("TYPED_NCCL", "host:2"));
                println!("test {name} ... ok");
            }
        }
    }
}

/// Runs the body of two ranks that launches closures, which differ on GPUs.
fn on_host(
    config: CommConfig,
    body: fn(Communicator<Host<AnyDevice>>) -> Result<()>,
) -> Result<()> {
    let run = |seat: Seat, device| {
        let builder = Communicator::builder().seat(seat).device(device);
        body(builder.config(config.clone()).build().connect()?)
    };
    Host::spmd(2, |place| {
        let (seat, device) = place.into_parts();
        run(seat, Host::any(device.ordinal())?)
    })
    .map(drop)
}

/// Lines of a report, with this file's name.
fn story(lines: &[(u32, &str)]) -> String {
    let mut text = String::new();
    for (line, what) in lines {
        write!(text, "\n  {}:{line}: {what}", file!()).expect("a string");
    }
    text
}

/// Rank 1's communicator is leaked, so no thread can make its calls.
mod forgotten {
    use super::*;

    const FIRST: u32 = line!();

    fn body<W: World>(comm: Communicator<W>) -> Result<()> {
        if comm.rank().index() == 1 {
            std::mem::forget(comm);
            return Ok(());
        }
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        comm.all_reduce_in_place(&mut x, Sum)?; // FIRST + 8
        x.to_vec()?;
        comm.finish()
    }

    pub(super) fn run() -> Result<()> {
        launch!(body)
    }

    pub(super) fn says() -> String {
        let story = story(&[(
            FIRST + 8,
            "rank 0 calls all_reduce of 4 f32 and waits until rank 1 does too, which it has not \
             called, and every thread waits",
        )]);
        format!(
            "every thread waits, and none is left to make the next call{story}\n\
             help: all ranks must make the same calls in the same order"
        )
    }
}

/// Each rank waits for its call of one communicator before it makes the other's.
mod crossed {
    use super::*;

    tag!(Second);

    const FIRST: u32 = line!();

    fn body<W: World>(mut first: Communicator<W>) -> Result<()> {
        let second = first.split::<Second>(0, 0)?;
        let mut x = first.device().from_slice(&[1.0_f32; 4])?;
        if first.rank().index() == 0 {
            first.all_reduce_in_place(&mut x, Sum)?; // FIRST + 6
            x.to_vec()?; // Each rank submits its own key.
            second.all_reduce_in_place(&mut x, Sum)?;
        } else {
            second.all_reduce_in_place(&mut x, Sum)?; // FIRST + 10
            x.to_vec()?; // FIRST + 11
            first.all_reduce_in_place(&mut x, Sum)?;
        }
        second.finish()?;
        first.finish()
    }

    pub(super) fn run() -> Result<()> {
        launch!(body)
    }

    pub(super) fn says() -> String {
        let called = "and waits until rank";
        let not = "does too, which it has not called";
        let story = story(&[
            (FIRST + 6, &format!("rank 0 calls all_reduce of 4 f32 {called} 1 {not}")),
            (FIRST + 11, "rank 1 is in `to_vec` until its stream is done"),
            (FIRST + 10, &format!("rank 1 calls all_reduce of 4 f32 {called} 0 {not}")),
            (FIRST + 7, "rank 0 is in `to_vec` until its stream is done"),
        ]);
        format!(
            "rank 0 and rank 1 wait for each other{story}\n\
             help: use the communicators in one order on all ranks"
        )
    }
}

const KEYS: &str = "all ranks must submit the same keys; a request keeps its thread while it waits \
                    for its turn, so each rank needs a thread for each request in flight, or tasks \
                    and `submit_async`";

/// Each rank submits its own key.
mod keys {
    use super::*;

    const FIRST: u32 = line!();

    fn body<W: World>(comm: Communicator<W>) -> Result<()> {
        let rank = comm.rank().index();
        let ordered = Ordered::new(comm)?;
        match rank {
            0 => ordered.submit("grads/0", |comm| comm.barrier())?, // FIRST + 6
            _ => ordered.submit("grads/1", |comm| comm.barrier())?, // FIRST + 7
        }
        ordered.finish()
    }

    pub(super) fn run() -> Result<()> {
        launch!(body)
    }

    pub(super) fn says() -> String {
        let story = story(&[
            (FIRST + 6, "rank 0 has submitted `grads/0` and waits until rank 1 does too"),
            (FIRST + 7, "rank 1 has submitted `grads/1` and waits until rank 0 does too"),
        ]);
        format!(
            "rank 0 and rank 1 wait for each other{story}\n\
             help: {KEYS}"
        )
    }
}

/// Likewise, on threads that the ranks' own threads join.
mod keys_on_threads {
    use super::*;

    const FIRST: u32 = line!();

    fn body<W: World>(comm: Communicator<W>) -> Result<()> {
        let rank = comm.rank().index();
        let ordered = Ordered::new(comm)?;
        let submits = |key| match rank {
            0 => ordered.submit(format!("0/{key}"), |comm| comm.barrier()), // FIRST + 6
            _ => ordered.submit(format!("1/{key}"), |comm| comm.barrier()), // FIRST + 7
        };
        std::thread::scope(|threads| threads.spawn(|| submits("grads")).join())
            .map_err(|_| Error::other("it panicked"))?
    }

    pub(super) fn run() -> Result<()> {
        launch!(body)
    }

    pub(super) fn says() -> String {
        let story = story(&[
            (FIRST + 6, "rank 0 has submitted `0/grads` and waits until rank 1 does too"),
            (FIRST + 7, "rank 1 has submitted `1/grads` and waits until rank 0 does too"),
        ]);
        format!(
            "rank 0 and rank 1 wait for each other{story}\n\
             help: {KEYS}"
        )
    }
}

/// A request waits for a thread that submits another one.
mod inside {
    use super::*;

    const FIRST: u32 = line!();

    pub(super) fn run() -> Result<()> {
        spmd::<Host>(1, |place| {
            let ordered = Ordered::new(place.init()?)?;
            ordered.submit("outer", |_| {
                let submits = || ordered.submit("inner", |comm| comm.barrier()); // FIRST + 6
                std::thread::scope(|threads| threads.spawn(submits).join())
                    .map_err(|_| Error::other("it panicked"))?
            }) // submitted at FIRST + 5
        })
    }

    pub(super) fn says() -> String {
        let story = story(&[(
            FIRST + 6,
            &format!(
                "rank 0 has submitted `inner` and waits for `outer` (at {}:{}), which rank 0 is \
                 still issuing, and every thread waits",
                file!(),
                FIRST + 5
            ),
        )]);
        format!(
            "every thread waits, and none is left to make the next call{story}\n\
             help: a request must not wait for another one of its rank: make its calls with the \
             communicator that the closure is given"
        )
    }
}

/// One rank takes a seat of a second communicator, the other waits for it in the first.
mod connects {
    use super::*;

    static SEATS: Mutex<Vec<Seat>> = Mutex::new(Vec::new());

    const FIRST: u32 = line!();

    fn body<W: World>(first: Communicator<W>) -> Result<()> {
        if first.rank().index() == 1 {
            first.barrier()?; // FIRST + 4
        }
        let seat = SEATS.lock().expect("no panic").remove(0);
        let device = Host::any(seat.rank().index() as u32)?;
        let second = seat.init(device)?; // FIRST + 8
        first.barrier()?;
        second.finish()?;
        first.finish()
    }

    pub(super) fn run() -> Result<()> {
        *SEATS.lock().expect("no panic") = Seat::local(2);
        launch!(body)
    }

    pub(super) fn says() -> String {
        let not = "which has not called it";
        let story = story(&[
            (FIRST + 4, &format!("rank 1 is in `barrier` and waits for rank 0, {not}")),
            (
                FIRST + 8,
                &format!("rank 0 is in `init` and waits for rank 1, {not}, and every thread waits"),
            ),
        ]);
        format!(
            "every thread waits, and none is left to make the next call{story}\n\
             help: all ranks must connect, and before what they wait for can happen"
        )
    }
}

/// All threads wait for a closure that takes longer than the engine's observation.
mod working {
    use super::*;

    fn body(comm: Communicator<Host<AnyDevice>>) -> Result<()> {
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        comm.stream().launch(&mut x, |_, ()| std::thread::sleep(Duration::from_millis(300)))?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [2.0; 4]);
        comm.finish()
    }

    pub(super) fn run() -> Result<()> {
        on_host(CommConfig::builder().deadline(Duration::from_secs(50)).build(), body)
    }
}

/// The threads of both ranks wait for something that a third one does.
mod helped {
    use super::*;

    fn body(comm: Communicator<Host<AnyDevice>>) -> Result<()> {
        let rank = comm.rank().index();
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut y = comm.device().zeros::<f32>(4)?;
        if rank == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        comm.stream().launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            if rank == 1 {
                let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
                comm.all_reduce_in_place(&mut x, Sum)?;
            }
            comm.finish()
        });
        y.to_vec()?;
        late.join().map_err(|_| Error::other("it panicked"))?
    }

    pub(super) fn run() -> Result<()> {
        on_host(CommConfig::default(), body)
    }
}

/// Every rank's calls pass through channels from thread to thread, some of them late. At most
/// moments every thread waits, for a rank or for another thread.
mod handed {
    use super::*;

    const STEPS: u64 = 150;

    pub(super) fn run() -> Result<()> {
        spmd::<Host>(3, |place| {
            let comm = place.init()?;
            let rank = comm.rank().index() as u64;
            let (calls, orders) = channel();
            let (over, done) = channel();
            let calling = || -> Result<()> {
                let (orders, over) = (orders, over);
                for step in orders {
                    let mut x = comm.device().from_slice(&[step])?;
                    comm.all_reduce_in_place(&mut x, Sum)?;
                    assert_eq!(x.to_vec()?, [3 * step]);
                    over.send(()).expect("somebody waits");
                }
                comm.finish()
            };
            std::thread::scope(|threads| {
                let caller = threads.spawn(calling);
                for step in 0..STEPS {
                    // Now and then, longer than it takes to find that every thread waits.
                    if (step + rank * 7).is_multiple_of(20) {
                        std::thread::sleep(Duration::from_millis(60));
                    }
                    calls.send(step).map_err(|_| Error::other("no caller"))?;
                    done.recv().map_err(|_| Error::other("no caller"))?;
                }
                drop(calls);
                caller.join().map_err(|_| Error::other("it panicked"))?
            })
        })
    }
}
