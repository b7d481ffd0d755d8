//! `within`: a deadline for some calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use typed_nccl::error::Deadline;
use typed_nccl::plans::ring_exchange;
use typed_nccl::{CommConfig, Communicator, Error, Ordered, Result, Sum, tag};

use super::{Anywhere, ranks};

tag!(Half);

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

fn with(deadline: Duration) -> impl Fn(usize) -> CommConfig {
    move |_| CommConfig::builder().deadline(deadline).build()
}

/// The deadline that ended it.
fn whose<T>(outcome: Result<T>) -> Deadline {
    match outcome.map(drop) {
        Err(Error::Timeout(timeout)) => timeout.deadline,
        Err(error) => panic!("it is no timeout: {error}"),
        Ok(()) => panic!("it came to its end"),
    }
}

/// Makes a call on rank 0 that rank 1 does not make, within a short deadline, on a communicator
/// with a long one.
fn alone(call: fn(&mut Communicator<Anywhere>) -> Result<()>) {
    let over = Arc::new(Barrier::new(2));
    ranks(2, with(LONG), move |mut comm| {
        comm.barrier()?;
        if comm.rank().index() == 0 {
            let error = call(&mut comm).expect_err("the other one does not call it");
            let text = error.to_string();
            assert!(text.contains("the deadline of `within` (at tests/late/within.rs:"), "{text}");
            assert!(matches!(whose::<()>(Err(error)), Deadline::Within(_)));
        }
        over.wait();
        comm.abort();
        Ok(())
    });
}

/// A separate test for each kind of wait.
macro_rules! obeys {
    ($($name:ident: $comm:ident => $call:expr),+ $(,)?) => { $(
        #[test]
        fn $name() {
            alone(|comm| {
                #[allow(unused_mut)]
                let mut $comm = comm.within(SHORT);
                $call.map(drop)
            });
        }
    )+ };
}

obeys! {
    barrier_obeys: comm => comm.barrier(),
    gather_values_obeys: comm => comm.gather_values(&1_u8),
    broadcast_value_obeys: comm => comm.broadcast_value(&1_u8, 1),
    agree_obeys: comm => comm.agree(1_u8),
    window_obeys: comm => comm.window::<u8>(4),
    split_obeys: comm => comm.split::<Half>(0, 0),
    sync_obeys: comm => {
        let mut x = comm.device().zeros::<f32>(4)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())
    },
    wait_obeys: comm => {
        let mut x = comm.device().zeros::<f32>(4)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let mark = comm.mark(comm.stream())?;
        comm.wait(&mark)
    },
    what_drains_obeys: comm => {
        let mut x = comm.device().zeros::<f32>(4)?;
        let stream = comm.device().stream()?;
        comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        comm.split::<Half>(0, 0)
    },
    a_scalar_obeys: comm => {
        let mut x = comm.device().zeros::<f32>(1)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.pre_mul_sum_device(x)
    },
    bind_obeys: comm => {
        ring_exchange::bind::<f32, _>(&mut comm, ring_exchange::Params { len: 4 })
    },
}

#[test]
fn recover_obeys_and_keeps_the_deadline() {
    let over = Arc::new(Barrier::new(2));
    ranks(2, with(LONG), move |mut comm| {
        comm.barrier()?;
        if comm.rank().index() == 0 {
            let recovery = comm.within(SHORT).recover()?;
            let why = &recovery.lost[0].why;
            assert!(why.contains("did not come to `recover` within 20ms"), "{why}");
            assert_eq!((comm.deadline(), comm.size()), (LONG, 1));
        }
        over.wait();
        comm.abort();
        Ok(())
    });
}

/// Rank 1 arrives after rank 0's own deadline has passed, and then not at all.
fn one_is_late(call: fn(&mut Communicator<Anywhere>)) {
    let over = Arc::new(Barrier::new(2));
    ranks(2, with(SHORT), move |mut comm| {
        if comm.rank().index() == 1 {
            std::thread::sleep(4 * SHORT);
            comm.within(LONG).barrier()?;
        } else {
            call(&mut comm);
            assert_eq!(whose(comm.barrier()), Deadline::Configured);
        }
        over.wait();
        comm.abort();
        Ok(())
    });
}

#[test]
fn a_longer_one_waits_longer_and_the_own_one_counts_again() {
    one_is_late(|comm| comm.within(LONG).barrier().expect("it comes"));
}

#[test]
fn the_own_one_counts_again_after_a_panic() {
    one_is_late(|comm| {
        comm.within(LONG).barrier().expect("it comes");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _comm = comm.within(LONG);
            std::panic::resume_unwind(Box::new("bang"));
        }));
        assert!(panicked.is_err());
    });
}

#[test]
fn an_inner_one_gives_way_to_the_outer_one() {
    one_is_late(|comm| {
        let mut outer = comm.within(LONG);
        drop(outer.within(Duration::ZERO));
        outer.barrier().expect("it comes");
    });
}

#[test]
fn another_communicator_in_its_place_has_its_own() {
    let (split, over) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    ranks(2, with(SHORT), move |mut comm| {
        let mut between = comm.within(LONG).split::<Half>(0, 0)?;
        let mut other = between.within(LONG).split::<Half>(0, 0)?;
        let mut third = comm.within(LONG).split::<Half>(0, 0)?;
        // A timeout on one rank fails a split that another has not returned from.
        split.wait();
        if comm.rank().index() == 0 {
            std::mem::swap(&mut *other.within(LONG), &mut third);
            for comm in [&other, &third] {
                assert_eq!(whose(comm.barrier()), Deadline::Configured);
            }
        }
        over.wait();
        for comm in [between, other, third] {
            comm.abort();
        }
        comm.abort();
        Ok(())
    });
}

#[test]
fn a_child_has_its_parents_own() {
    ranks(2, with(LONG), |mut comm| {
        let child = comm.within(LONG / 2).split::<Half>(0, 0)?;
        assert_eq!(child.deadline(), LONG);
        child.finish()?;
        comm.finish()
    });
}

/// A request of an `Ordered` has the communicator's own deadline; calls inside it may have another.
#[test]
fn calls_in_a_request_may_have_their_own() {
    let (told, hears) = mpsc::channel::<()>();
    let (told, hears) = (std::sync::Mutex::new(Some(told)), std::sync::Mutex::new(hears));
    let both = Barrier::new(2);
    ranks(2, with(LONG), move |comm| {
        let rank = comm.rank().index();
        let ordered = Ordered::new(comm)?;
        let outcome = ordered.submit("barrier", |comm| {
            // A timeout on one rank fails a request that waits for its turn.
            both.wait();
            if rank == 0 {
                let outcome = comm.within(SHORT).barrier();
                drop(told.lock().expect("nobody panics").take());
                Ok(outcome)
            } else {
                Ok(hears.lock().expect("nobody panics").recv().map_err(Error::other))
            }
        })?;
        if rank == 0 {
            assert!(matches!(whose(outcome), Deadline::Within(_)));
        }
        ordered.into_inner().abort();
        Ok(())
    });
}

#[test]
fn what_the_call_is_given_is_the_calls() {
    let mut seats = typed_nccl::Seat::local(2);
    let device = typed_nccl::Host::any(0).expect("a device");
    let starting = seats.remove(0).start(device).expect("it starts");
    let failed = starting.try_ready(std::time::Instant::now() + SHORT).expect_err("one is missing");
    assert_eq!(whose::<()>(Err(failed.error)), Deadline::Call);
    failed.value.abort();
}
