//! Code of the program that panics in the middle of a call, and is caught: the call has taken its
//! turn, so the ranks stay in step or learn why not.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use typed_nccl::plan::build::{Checked, PlanBuilder};
use typed_nccl::plan::{self, Call, Values};
use typed_nccl::{
    CommConfig, Communicator, Error, Host, Place, Result, Scoped, Seat, Sum, World, tag,
};

use crate::ranks::spmd;

use crate::own_process::inside;

type Rank<'id> = Communicator<Host<Scoped<'id>>>;

fn connect(place: Place<Host<Scoped<'_>>>) -> Result<Rank<'_>> {
    place.init_with(CommConfig::builder().deadline(Duration::from_secs(20)).build())
}

/// Runs code that panics, and continues.
fn caught<R>(work: impl FnOnce() -> R) {
    let panicked = catch_unwind(AssertUnwindSafe(work)).err().expect("a panic");
    assert_eq!(panicked.downcast_ref(), Some(&"a panic that a test made"), "it goes on as it was");
}

/// Panics without a message on standard error.
fn panics() -> ! {
    resume_unwind(Box::new("a panic that a test made"))
}

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The number of operations that a group would have recorded is unknown, so the communicator ends.
#[test]
fn in_a_group() -> Result<()> {
    if !inside("in_a_group") {
        return Ok(());
    }
    for recorded in [false, true] {
        typed_nccl::spmd::<Host>(2, |place| {
            let mut comm = connect(place)?;
            let (mut x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
            comm.barrier()?;
            if comm.rank().index() == 0 {
                caught(|| {
                    comm.group(|g| -> Result<()> {
                        if recorded {
                            g.all_reduce_in_place(&mut x, Sum)?;
                        }
                        panics()
                    })
                });
                let error = comm.all_reduce_in_place(&mut y, Sum).expect_err("out of step");
                assert!(error.is_fatal());
                says(&error, &["tests/panics.rs:", "group panicked: a panic that a test made"]);
            } else {
                let together = comm.group(|g| {
                    g.all_reduce_in_place(&mut x, Sum)?;
                    g.all_reduce_in_place(&mut y, Sum)
                });
                let told = together.and_then(|()| comm.sync(comm.stream()));
                let error = told.expect_err("the other rank's part never comes");
                says(&error, &["rank 0", "a panic that a test made"]);
            }
            comm.abort();
            Ok(())
        })?;
    }
    Ok(())
}

/// A group swapped for another one: both lose track of the operations they would have recorded.
#[test]
fn in_a_group_that_was_swapped() -> Result<()> {
    if !inside("in_a_group_that_was_swapped") {
        return Ok(());
    }
    let comm = || Seat::local(1).remove(0).init(Host::local()?);
    let (mut first, mut second) = (comm()?, comm()?);
    let mut x = first.device().zeros::<f32>(4)?;
    let outcome = first.group(|g| -> Result<()> {
        g.all_reduce_in_place(&mut x, Sum)?;
        caught(|| {
            second.group(|h| -> Result<()> {
                std::mem::swap(g, h);
                panics()
            })
        });
        Ok(())
    });
    drop(outcome);
    for comm in [first, second] {
        let error = comm.health().expect_err("what it recorded is lost");
        says(&error, &["group panicked: a panic that a test made"]);
        comm.abort();
    }
    Ok(())
}

fn two_sums() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("two_sums");
    plan.ranks(1..);
    let (x, y) = (plan.in_out::<f32>("x", 4), plan.in_out::<f32>("y", 4));
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(x, Sum);
    plan.on(net).run("fill").reads(x).writes(x);
    plan.on(net).all_reduce_in_place(x, Sum);
    plan.on(net).all_reduce_in_place(y, Sum);
    plan.check().expect("a plan for any number of ranks")
}

fn steps_of<W: World, F: FnMut(&mut Call<'_, W>) -> Result<()>>(_: &Communicator<W>, f: F) -> F {
    f
}

/// The rest of the run is refused, and the next run finds the ranks in step.
#[test]
fn in_a_step_of_a_plan() -> Result<()> {
    if !inside("in_a_step_of_a_plan") {
        return Ok(());
    }
    spmd::<Host>(2, |place| {
        let mut comm = connect(place)?;
        let mut plan = plan::bind(&mut comm, two_sums().plan(), &Values::new())?;
        let device = comm.device();
        let (mut x, mut y) = (device.from_slice(&[1.0_f32; 4])?, device.from_slice(&[1.0_f32; 4])?);
        let run = plan.on(&comm).write("x", &mut x).write("y", &mut y);
        if comm.rank().index() == 0 {
            caught(|| run.run(&mut steps_of(&comm, |_| panics())));
        } else {
            run.run(&mut steps_of(&comm, |_| Ok(())))?;
            let error = comm.sync(comm.stream()).expect_err("told");
            assert!(matches!(error, Error::Refused(_)), "{error}");
            says(&error, &["rank 0 refused", "step `fill`: it panicked: a panic that a test made"]);
        }
        x.copy_from(&[3.0; 4])?;
        y.copy_from(&[5.0; 4])?;
        let mut steps = steps_of(&comm, |_| Ok(()));
        plan.on(&comm).write("x", &mut x).write("y", &mut y).run(&mut steps)?;
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![12.0; 4], vec![10.0; 4]));
        comm.finish()
    })
}

/// A value that panics when it is serialized.
#[derive(Debug, Deserialize, PartialEq)]
struct Value(u8);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => panics(),
            value => serializer.serialize_newtype_struct("Value", &value),
        }
    }
}

#[test]
fn in_a_value() -> Result<()> {
    if !inside("in_a_value") {
        return Ok(());
    }
    spmd::<Host>(2, |place| {
        let comm = connect(place)?;
        let rank = comm.rank().index();
        if rank == 0 {
            caught(|| comm.gather_values(&Value(0)));
            caught(|| comm.broadcast_value(&Value(0), 0));
        } else {
            let error = comm.gather_values(&Value(1)).expect_err("the other has none");
            says(&error, &["rank 0", "whose value panicked"]);
            let error = comm.broadcast_value(&Value(1), 0).expect_err("the root has none");
            says(&error, &["rank 0", "whose value panicked"]);
        }
        let value = Value(rank as u8 + 1);
        assert_eq!(comm.gather_values(&value)?, [Value(1), Value(2)]);
        assert_eq!(comm.broadcast_value(&value, 1)?, Value(2));
        comm.finish()
    })
}

/// A list of ranks that panics when it is read.
struct Ranks;

impl AsRef<[usize]> for Ranks {
    fn as_ref(&self) -> &[usize] {
        panics()
    }
}

tag!(Half);

#[test]
fn in_a_list_of_ranks() -> Result<()> {
    if !inside("in_a_list_of_ranks") {
        return Ok(());
    }
    spmd::<Host>(2, |place| {
        let mut comm = connect(place)?;
        if comm.rank().index() == 0 {
            caught(|| comm.split_into::<Half>(&[Ranks]).map(drop));
        } else {
            let error = comm.split_into::<Half>(&[[0], [1]]).expect_err("the other has no list");
            says(&error, &["rank 0", "a split that was refused"]);
        }
        let half = comm.split_into::<Half>(&[[1, 0]])?.expect("both are in it");
        assert_eq!(half.rank().index(), 1 - comm.rank().index());
        half.finish()?;
        comm.finish()
    })
}

/// An error whose text calls the library.
struct Asks;

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened = Host::local().and_then(|host| host.stream());
        write!(f, "opened {:?}", opened.is_ok())
    }
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Asks {}

impl Drop for Asks {
    fn drop(&mut self) {
        let _ = self.to_string();
    }
}

/// Two refusals with the same reason are compared where they meet, where the program's code must
/// not run.
#[test]
fn an_error_of_the_programs_own_runs_under_no_lock() -> Result<()> {
    if !inside("an_error_of_the_programs_own_runs_under_no_lock") {
        return Ok(());
    }
    spmd::<Host>(2, |place| {
        let mut comm = connect(place)?;
        let mut plan = plan::bind(&mut comm, two_sums().plan(), &Values::new())?;
        let (mut x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let fails = comm.rank().index() == 0;
        let mut steps = steps_of(&comm, |_| match fails {
            true => Err(Error::other(Asks)),
            false => Ok(()),
        });
        let run = plan.on(&comm).write("x", &mut x).write("y", &mut y).run(&mut steps);
        match (fails, run) {
            (true, Err(Error::Other(own))) => assert!(own.source.is::<Asks>()),
            (false, Ok(())) => {
                let error = comm.sync(comm.stream()).expect_err("told");
                says(&error, &["rank 0 refused its part: opened true"]);
            }
            (_, other) => panic!("{other:?}"),
        }
        comm.finish()
    })
}

/// An error of the program that waits in its drop until another one is dropped.
#[derive(Debug)]
enum Waits {
    First,
    Other,
}

/// Whether it waited in vain.
static LATE: AtomicBool = AtomicBool::new(false);

static DROPPED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

impl Drop for Waits {
    fn drop(&mut self) {
        let other = DROPPED.0.lock().expect("no panic");
        match self {
            Self::First => {
                let limit = Duration::from_secs(20);
                let waited = DROPPED.1.wait_timeout_while(other, limit, |other| !*other);
                LATE.store(waited.expect("no panic").1.timed_out(), Ordering::Relaxed);
            }
            Self::Other => {
                let mut other = other;
                *other = true;
                DROPPED.1.notify_all();
            }
        }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waits")
    }
}

impl From<Error> for Waits {
    fn from(_: Error) -> Self {
        Self::Other
    }
}

/// One of the ranks' errors is returned; the rest are dropped where no thread waits for a lock.
#[test]
fn errors_of_ranks_are_dropped_under_no_lock() {
    let late = Duration::from_millis(100);
    caught(|| {
        Host::spmd(3, |place| match place.rank().index() {
            0 => Err::<(), _>(Waits::First),
            1 => {
                // Once the first one is known: it has lower priority, and is replaced.
                std::thread::sleep(late);
                panics()
            }
            _ => {
                std::thread::sleep(2 * late);
                Err(Waits::Other)
            }
        })
    });
    assert!(!LATE.load(Ordering::Relaxed), "the other ranks cannot end");
}
