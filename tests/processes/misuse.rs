//! Mistakes that involve two ranks: each rank gets the same error between processes as between
//! threads.

use std::sync::Mutex;
use std::time::Duration;
use std::{env, thread};

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Cuda, Error, Max, Result, Sum, launch, plan, tag,
};

use crate::machine::{Run, Test, lines, output};

type Gpu = Cuda<AnyDevice>;
type Comm = Communicator<Gpu>;

tag!(Left, Right);

plan! {
    /// Around the ring.
    around(n: Ranks, len: usize) {
        in a: [f32; len];
        out b: [f32; len];
        send a to (rank + 1) % n into b;
    }
}

/// A mistake, by its name.
type Mistake = (&'static str, fn(Comm) -> Result<()>);

const MISTAKES: &[Mistake] = &[
    ("counts_that_differ", |comm| {
        let count = if first(&comm) { 8 } else { 9 };
        reduces(&comm, count)?;
        comm.finish()
    }),
    ("types_that_differ", |comm| {
        match first(&comm) {
            true => reduces(&comm, 8)?,
            false => {
                let mut x = comm.device().zeros::<i32>(8)?;
                comm.all_reduce_in_place(&mut x, Sum)?;
                comm.stream().sync()?;
            }
        }
        comm.finish()
    }),
    ("reductions_that_differ", |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        match first(&comm) {
            true => comm.all_reduce_in_place(&mut x, Sum)?,
            false => comm.all_reduce_in_place(&mut x, Max)?,
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("collectives_in_another_order", |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        for turn in 0..2 {
            match first(&comm) == (turn == 0) {
                true => comm.all_reduce_in_place(&mut x, Sum)?,
                false => comm.broadcast_in_place(&mut x, 0)?,
            }
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("transfers_that_differ", |comm| {
        let mut x = comm.device().zeros::<f32>(64)?;
        match first(&comm) {
            true => comm.send(&x.slice(0..16), 1)?,
            false => comm.recv(&mut x, 0)?,
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("a_collective_that_one_rank_refuses", |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(20)?);
        let to = if first(&comm) { 0..3 } else { 0..16 };
        lingers(&comm, comm.all_gather(&x, &mut y.slice_mut(to)))?;
        comm.stream().sync()?;
        comm.finish()
    }),
    ("a_collective_that_one_rank_forgets", |comm| {
        if first(&comm) {
            reduces(&comm, 8)?;
        }
        comm.finish()
    }),
    ("a_receive_that_nobody_sends", |comm| {
        if first(&comm) {
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.recv(&mut x, 1)?;
            comm.stream().sync()?;
        }
        comm.finish()
    }),
    ("a_send_that_nobody_receives", |comm| {
        if first(&comm) {
            comm.send(&comm.device().zeros::<f32>(8)?, 1)?;
        }
        comm.finish()
    }),
    ("a_signal_that_nobody_raises", |mut comm| {
        let window = comm.window::<f32>(8)?;
        if first(&comm) {
            comm.wait_signal(1)?;
            window.to_vec()?;
        }
        comm.finish()
    }),
    ("a_signal_that_nobody_awaits", |mut comm| {
        let (source, window) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
        if first(&comm) {
            comm.put_signal(&source, 1, window.at(0))?;
        }
        comm.finish()
    }),
    ("a_put_that_is_refused", |mut comm| {
        let (source, window) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
        match first(&comm) {
            true => lingers(&comm, comm.put_signal(&source, 1, window.at(5)))?,
            false => {
                comm.wait_signal(0)?;
                window.to_vec()?;
            }
        }
        comm.finish()
    }),
    ("windows_that_differ", |mut comm| {
        let len = if first(&comm) { 8 } else { 16 };
        comm.window::<f32>(len)?;
        comm.finish()
    }),
    ("values_of_other_types", |comm| {
        match first(&comm) {
            true => drop(comm.gather_values(&1_u32)?),
            false => drop(comm.gather_values(&1_i64)?),
        }
        comm.finish()
    }),
    ("other_calls_on_the_host", |comm| {
        match first(&comm) {
            true => comm.barrier()?,
            false => drop(comm.gather_values(&1_u32)?),
        }
        comm.finish()
    }),
    ("roots_that_differ", |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        comm.broadcast_in_place(&mut x, comm.rank())?;
        comm.stream().sync()?;
        comm.finish()
    }),
    ("transfers_in_another_order", |comm| {
        let (mut x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(64)?);
        match first(&comm) {
            true => {
                comm.send(&x, 1)?;
                comm.send(&y, 1)?;
            }
            false => {
                comm.recv(&mut y, 0)?;
                comm.recv(&mut x, 0)?;
            }
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("memory_that_differs", |mut comm| {
        let mut window = comm.window::<f32>(8)?;
        let mut plain = comm.device().nccl_zeros::<f32>(8)?;
        match first(&comm) {
            true => comm.all_reduce_in_place(&mut window, Sum)?,
            false => comm.all_reduce_in_place(&mut plain, Sum)?,
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("a_transfer_that_one_rank_refuses", |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        match first(&comm) {
            true => lingers(&comm, comm.send(&x.slice(0..9), 1))?,
            false => comm.recv(&mut x, 0)?,
        }
        comm.stream().sync()?;
        comm.finish()
    }),
    ("labels_that_differ", |mut comm| {
        match first(&comm) {
            true => comm.split::<Left>(0, 0)?.finish()?,
            false => comm.split::<Right>(0, 0)?.finish()?,
        }
        comm.finish()
    }),
    ("lists_of_a_split_that_one_rank_refuses", |mut comm| {
        let lists: &[&[usize]] = if first(&comm) { &[&[0, 2]] } else { &[&[0, 1]] };
        let made = comm.split_into::<Left>(lists).map(drop);
        lingers(&comm, made)?;
        comm.finish()
    }),
    ("plans_that_differ", |mut comm| {
        let len = if first(&comm) { 8 } else { 9 };
        drop(around::bind(&mut comm, around::Params { len })?);
        comm.finish()
    }),
    ("a_bind_that_one_rank_forgets", |mut comm| {
        match first(&comm) {
            true => drop(around::bind(&mut comm, around::Params { len: 8 })?),
            false => comm.barrier()?,
        }
        comm.finish()
    }),
    ("a_finish_while_the_other_waits_for_a_signal", |mut comm| {
        let window = comm.window::<f32>(8)?;
        if !first(&comm) {
            comm.wait_signal(0)?;
            window.to_vec()?;
        }
        comm.finish()
    }),
    ("an_abort_while_the_other_waits_for_a_signal", |mut comm| {
        let window = comm.window::<f32>(8)?;
        if first(&comm) {
            drop(comm.abort_because("it has seen enough"));
            return Ok(());
        }
        comm.wait_signal(0)?;
        window.to_vec()?;
        comm.finish()
    }),
    ("a_communicator_that_is_dropped", |comm| {
        if first(&comm) {
            return Ok(());
        }
        reduces(&comm, 8)?;
        comm.finish()
    }),
    ("an_abort", |comm| {
        if first(&comm) {
            drop(comm.abort_because("it has seen enough"));
            return Ok(());
        }
        reduces(&comm, 8)?;
        comm.finish()
    }),
    ("an_error_of_the_programs_own", |comm| {
        if first(&comm) {
            return Err(Error::other("disk full"));
        }
        reduces(&comm, 8)?;
        comm.finish()
    }),
];

fn first(comm: &Comm) -> bool {
    comm.rank().index() == 0
}

/// A refusing rank stays until the other has the error; otherwise that one may learn of its end
/// first.
fn lingers(comm: &Comm, outcome: Result<()>) -> Result<()> {
    outcome.inspect_err(|_| drop(comm.barrier()))
}

fn reduces(comm: &Comm, count: usize) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(count)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.stream().sync()
}

/// The kind of an error, and the rank that it names.
fn told(outcome: Result<()>) -> String {
    let Err(error) = outcome else { return "all is well".to_owned() };
    match error {
        Error::Mismatch(mismatch) => {
            format!("mismatch: {}, {} calls", mismatch.what, mismatch.calls.len())
        }
        Error::Refused(refused) => format!("refused by {}: {}", refused.by, refused.reason),
        Error::PeerFailed(failed) => format!("lost {:?}", failed.lost),
        Error::Unawaited(unawaited) => format!("unawaited: {} kinds", unawaited.signals.len()),
        Error::ValueMismatch(value) => format!("values: {} {}", value.operation, value.rank),
        Error::WindowsDiffer(_) => "windows differ".to_owned(),
        Error::OutsideWindow(_) => "outside of the window".to_owned(),
        Error::BadLength(_) => "a bad length".to_owned(),
        Error::BadRange(_) => "a bad range".to_owned(),
        Error::BadGroups(_) => "bad groups".to_owned(),
        Error::PlansDiffer(plans) => format!("plans differ: {:?}", plans.parts),
        Error::InitFailed(failed) => format!("{failed}"),
        other => format!("something else: {other}"),
    }
}

/// The variable that names the mistake.
const MISTAKE: &str = "PROCESSES_TEST_MISTAKE";

/// Used only for its types.
trait OnGpus: Sized {
    fn on_gpus(self) -> Option<Comm>;
}

impl<W: typed_nccl::World + 'static> OnGpus for Communicator<W> {
    fn on_gpus(self) -> Option<Comm> {
        let any: Box<dyn std::any::Any> = Box::new(self);
        any.downcast::<Comm>().ok().map(|comm| *comm)
    }
}

fn makes<W: typed_nccl::World + 'static>(comm: Communicator<W>) -> Result<()> {
    let comm = comm.on_gpus().expect("it is on GPUs");
    let wanted = env::var(MISTAKE).expect("the test says which");
    let (_, mistake) = MISTAKES.iter().find(|(name, _)| *name == wanted).expect("it exists");
    let rank = comm.rank();
    comm.barrier()?;
    let outcome = mistake(comm);
    let own = matches!(&outcome, Err(Error::Other(_)));
    let handed_on = own.then(|| outcome.clone());
    println!("rank {rank}: {}", told(outcome));
    // The error itself would make the launcher end the other rank.
    handed_on.unwrap_or(Ok(()))
}

pub(crate) const TESTS: &[Test] = &[Test {
    name: "mistakes_are_told_as_between_threads",
    program: || launch!(makes, CommConfig::builder().deadline(Duration::from_secs(20)).build()),
    test: |run| {
        let (left, unlike) = (Mutex::new(MISTAKES.iter()), Mutex::new(Vec::new()));
        let work = || {
            let next = || left.lock().expect("no panic").next();
            while let Some((name, _)) = next() {
                let told = compare(run, name);
                unlike.lock().expect("no panic").extend(told);
            }
        };
        // Most of the time is waiting.
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        let unlike = unlike.into_inner().expect("no panic");
        assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    },
}];

/// The errors of a mistake, if they differ between threads and processes.
fn compare(run: &Run, name: &str) -> Option<String> {
    let told = ["cuda-threads:2", "cuda:2"].map(|kind| {
        let mut command = run.on_gpus();
        command.env("TYPED_NCCL", kind).env(MISTAKE, name);
        let ended = output(command);
        let lines = lines(&ended.stdout).into_iter();
        let lines = lines.filter_map(|line| Some(line[line.find("rank ")?..].to_owned()));
        (lines.collect::<Vec<_>>(), ended)
    });
    let [(threads, _), (processes, ended)] = told;
    let is_told = threads.iter().any(|line| !line.ends_with("all is well"));
    let is_like = threads == processes && threads.len() == 2 && is_told;
    (!is_like).then(|| format!("{name}\n  {threads:?}\n  {processes:?}\n  {ended:?}"))
}
