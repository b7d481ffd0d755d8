//! Costs are proportional to what a program has: no step for one item visits all items.
//!
//! Sizes are such that quadratic work takes minutes and all other work a second or two, so the
//! limit is generous.

use std::env;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Plan, Values};
use typed_nccl::{
    CommConfig, Communicator, Error, Host, Place, Requirements, Result, Seat, Stream, Sum,
};

/// The limit of each test, beside other work on a slow machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The deadline of waits that are to pass it.
const DEADLINE: Duration = Duration::from_secs(2);

/// All of them are ranks of one process, and wait for each other's turns at its engine.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

fn in_time<T>(run: impl FnOnce() -> Result<T>) -> Result<()> {
    let _one = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let started = Instant::now();
    let outcome = run().map(drop);
    assert!(started.elapsed() < LIMIT, "it took {:?}", started.elapsed());
    outcome
}

fn connect<T>(place: Place<Host<T>>, deadline: Duration) -> Result<Communicator<Host<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(deadline).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    // Within a time of its own: the deadline only counts from then on.
    comm.start()?.ready().wait_until(Instant::now() + LIMIT)
}

/// Releases what waits for it after a wait has polled a few times.
fn after_a_while(go: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        go();
    })
}

#[test]
fn a_group_of_sends_that_nobody_receives() -> Result<()> {
    const SENDS: usize = 40_000;
    let is_over = Barrier::new(2);
    in_time(|| {
        Host::spmd(2, |place| {
            let mut comm = connect(place, DEADLINE)?;
            if comm.rank().index() == 1 {
                is_over.wait();
                return Ok(());
            }
            let x = comm.device().zeros::<u8>(SENDS)?;
            comm.group(|g| (0..SENDS).try_for_each(|at| g.send(x.slice(at..at + 1), 1)))?;
            let outcome = comm.sync(comm.stream());
            is_over.wait();
            // If no other thread of this process runs either, nobody can receive them any more.
            let ended = matches!(outcome, Err(Error::Timeout(_) | Error::Deadlock(_)));
            assert!(ended, "{outcome:?}");
            Ok(())
        })
    })
}

/// It ends late, so all of it is visited.
#[test]
fn a_chain_of_streams() -> Result<()> {
    in_time(|| {
        let comm = Seat::local(1).remove(0).init(Host::local()?)?;
        let streams: Result<Vec<Stream<Host>>> =
            (0..12_000).map(|_| comm.device().stream()).collect();
        let (streams, (go, gone)) = (streams?, channel::<()>());
        streams[0].launch((), move |(), ()| {
            let _ = gone.recv();
        })?;
        streams.windows(2).try_for_each(|two| two[1].wait_for(&two[0].mark()?))?;
        let goes = after_a_while(move || drop(go));
        comm.sync(&streams[streams.len() - 1])?;
        goes.join().expect("it ends");
        comm.finish()
    })
}

#[test]
fn streams_that_wait_for_each_task_of_one() -> Result<()> {
    in_time(|| {
        let comm = Seat::local(1).remove(0).init(Host::local()?)?;
        let (first, (go, gone)) = (comm.device().stream()?, channel::<()>());
        first.launch((), move |(), ()| {
            let _ = gone.recv();
        })?;
        let mut others = Vec::new();
        for _ in 0..8000 {
            let (other, mut x) = (comm.device().stream()?, comm.device().zeros::<u8>(1)?);
            first.launch(&mut x, |_, ()| {})?;
            other.wait_for(&first.mark()?)?;
            others.push(other);
        }
        let goes = after_a_while(move || drop(go));
        others.iter().try_for_each(|other| comm.sync(other))?;
        goes.join().expect("it ends");
        comm.finish()
    })
}

/// They belong to one communicator, so each waits for its turn.
#[test]
fn groups_on_streams_of_their_own() -> Result<()> {
    in_time(|| {
        Host::spmd(2, |place| {
            let comm = connect(place, LIMIT)?;
            let streams: Result<Vec<_>> = (0..3000).map(|_| comm.device().stream()).collect();
            let mut x = comm.device().from_slice(&[1.0_f64])?;
            let mut y = comm.device().zeros::<f64>(1)?;
            if comm.rank().index() == 1 {
                thread::sleep(Duration::from_millis(200));
            }
            for stream in &streams? {
                comm.on(stream).all_reduce(&x, &mut y, Sum)?;
            }
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!((x.to_vec()?, y.to_vec()?), (vec![2.0], vec![2.0]));
            comm.finish()
        })
    })
}

/// NCCL has memory for each barrier; here only used barriers take memory.
#[test]
fn barriers_that_nobody_comes_to() -> Result<()> {
    const BARRIERS: u32 = 1 << 24;
    in_time(|| {
        Host::spmd(2, |place| {
            let mut comm = connect(place, LIMIT)?;
            let (api, rank) = (comm.device_api()?, comm.rank().index());
            for turn in 1..=4_u32 {
                let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(BARRIERS))?;
                let window = comm.window::<u32>(1)?;
                comm.stream().launch((&dev, dev.peers(&window)), move |(dev, window), ()| {
                    window.peer(1 - rank).set(0, turn);
                    dev.lsa_barrier(BARRIERS - turn).sync();
                })?;
                assert_eq!(window.to_vec()?, [turn]);
                comm.close_dev_comm(dev)?;
            }
            comm.finish()
        })
    })
}

#[test]
fn ranks_as_threads() -> Result<()> {
    in_time(|| {
        Host::spmd(4000, |place| {
            let comm = connect(place, LIMIT)?;
            let mut x = comm.device().from_slice(&[1_u32])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(x.to_vec()?, [4000]);
            comm.finish()
        })
    })
}

/// So many sums that checking them all takes a rank minutes in a debug build.
fn many_sums() -> (Plan, Values) {
    let mut sums = PlanBuilder::new("sums");
    sums.ranks(1..);
    let k = sums.param("k", 1..);
    let (x, net) = (sums.in_out::<f32>("x", 8), sums.stream("net"));
    sums.for_each("i", ..k, |plan, _| plan.on(net).all_reduce_in_place(x, Sum));
    (sums.unchecked().expect("a plan"), Values::new().number("k", 500_000))
}

#[test]
fn a_plan_that_takes_longer_to_bind_than_the_deadline() -> Result<()> {
    let (plan, values) = many_sums();
    in_time(|| {
        Host::spmd(2, |place| {
            let mut comm = connect(place, DEADLINE)?;
            let error = plan::bind(&mut comm, &plan, &values).expect_err("it is too large");
            assert!(matches!(error, Error::Timeout(_) | Error::PeerFailed(_)), "{error}");
            let text = error.to_string();
            assert!(!matches!(error, Error::Timeout(_)) || text.contains("bind"), "{text}");
            assert!(comm.health().is_err());
            Ok(())
        })
    })
}

/// Only debug builds check the order of uses.
#[test]
fn all_of_it_without_the_check_of_order() {
    const CHECK: &str = "TYPED_NCCL_CHECK";
    if env::var(CHECK).is_ok() {
        return;
    }
    let _one = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut again = Command::new(env::current_exe().expect("it has a path"));
    let again = again.env(CHECK, "off").args(["growth::", "--test-threads", "1"]);
    let again = again.output().expect("it runs");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{said}{}", String::from_utf8_lossy(&again.stderr));
}
