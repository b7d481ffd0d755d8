//! Programs that own their process, under a watchdog: what is told when every thread of it waits.
//! Each is a program like those that users write, `main` with `launch!`, run again with its name.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Device, Error, Host, Result, Sum, World, launch, tag,
};

/// A program that takes longer hangs. Every communicator has ten minutes.
const LIMIT: Duration = Duration::from_secs(60);

type Program = (&'static str, fn() -> Result<()>, fn() -> String);

const PROGRAMS: [Program; 4] = [
    ("a_communicator_that_nobody_has", forgotten::run, forgotten::says),
    ("calls_of_two_communicators", crossed::run, crossed::says),
    ("every_thread_waits_and_a_closure_works", working::run, String::new),
    ("another_thread_makes_the_call", helped::run, String::new),
];

fn main() {
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
                alone(name);
                println!("test {name} ... ok");
            }
        }
    }
}

fn alone(name: &str) {
    let this = std::env::current_exe().expect("a test is a program");
    let mut child = Command::new(this)
        .arg(name)
        .env("TYPED_NCCL", "host:2")
        .stdout(Stdio::null())
        .spawn()
        .expect("a program starts again");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().expect("a child can be killed");
            panic!("{name} hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{name}: {status}");
}

/// Lines of a story, with this file's name.
fn story(lines: &[(u32, &str)]) -> String {
    let mut text = String::new();
    for (line, what) in lines {
        write!(text, "\n  {}:{line}: {what}", file!()).expect("a string");
    }
    text
}

/// Rank 1's communicator is lost, with nobody to make its calls.
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

/// Each rank waits for its call of one communicator before it makes that of the other.
mod crossed {
    use super::*;

    tag!(Second);

    const FIRST: u32 = line!();

    fn body<W: World>(mut first: Communicator<W>) -> Result<()> {
        let second = first.split::<Second>(0, 0)?;
        let mut x = first.device().from_slice(&[1.0_f32; 4])?;
        if first.rank().index() == 0 {
            first.all_reduce_in_place(&mut x, Sum)?; // FIRST + 6
            x.to_vec()?; // FIRST + 7
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

/// All threads wait, for a closure that takes longer than a look.
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
        launch!(body, CommConfig::builder().deadline(Duration::from_secs(50)).build())
    }
}

/// The threads of both ranks wait for what a third one does.
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
        launch!(body)
    }
}
