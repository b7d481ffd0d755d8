//! Order between streams: buffers, marks, host copies, and what a launched closure may do.
//!
//! The random programs are compared with the same steps one after the other. The other tests hold a
//! closure up at a [`Gate`], so that what must not wait for it is seen not to, and what must is.

use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use typed_nccl::error::Error;
use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Host, Mark, Result, Seat, Stream, Sum, spmd,
};

use own_process::inside;

#[path = "collectives/own_process.rs"]
mod own_process;

/// Long enough for what does not wait to happen.
const A_WHILE: Duration = Duration::from_millis(30);

/// How long a closure is held up at most: a gate that nobody opens opens itself, and its test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds closures up until it is opened or dropped.
struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn new() -> Self {
        Self { open: Arc::default() }
    }

    /// What a closure calls to be held up.
    fn pass(&self) -> impl FnOnce() + Send + 'static {
        let open = self.open.clone();
        move || {
            let (open, changed) = &*open;
            let open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(open, PATIENCE, |open| !*open);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = true;
        }
    }

    /// Opens it after a while, from another thread.
    fn open_later(&self) {
        let open = self.open.clone();
        thread::spawn(move || {
            thread::sleep(A_WHILE);
            Self::set(&open);
        });
    }

    fn open(&self) {
        Self::set(&self.open);
    }

    fn is_open(&self) -> bool {
        *self.open.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(open: &(Mutex<bool>, Condvar)) {
        *open.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        open.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// A communicator of one rank whose types are `'static`.
fn alone() -> Result<Communicator<Host<AnyDevice>>> {
    Seat::local(1).remove(0).init(Host::any(0)?)
}

/// Waits without asking what went wrong.
fn until_reached(mark: &Mark<Host>) -> Result<()> {
    while !mark.is_reached()? {
        thread::yield_now();
    }
    Ok(())
}

fn panicked(result: Result<()>) -> String {
    match result {
        Err(Error::Panicked(panicked)) => panicked.message,
        other => panic!("{other:?} instead of a panic"),
    }
}

// Random programs.

#[derive(Clone, Debug)]
struct Program {
    streams: usize,
    buffers: usize,
    len: usize,
    steps: Vec<Step>,
}

/// Streams, buffers and marks count modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    /// Reads up to two buffers and changes a third.
    Launch {
        stream: usize,
        reads: [usize; 2],
        write: usize,
        salt: u64,
        nap: u8,
    },
    /// Reads one half of a buffer and changes the other.
    Halves {
        stream: usize,
        buffer: usize,
        salt: u64,
        nap: u8,
    },
    /// Takes marks, of which the last is remembered.
    Mark {
        stream: usize,
        times: usize,
    },
    WaitFor {
        stream: usize,
        mark: usize,
    },
    Sync {
        stream: usize,
    },
    /// The host overwrites a buffer.
    Write {
        buffer: usize,
        salt: u64,
    },
    /// The host looks at a buffer.
    Read {
        buffer: usize,
    },
    /// Drops a stream, whatever it still has to do, for a new one.
    Reopen {
        stream: usize,
    },
    /// Drops a buffer, whoever still uses it, for a new one of zeros.
    Replace {
        buffer: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (stream, buffer) = (0_usize..3, 0_usize..4);
    let launch = (stream.clone(), [buffer.clone(), buffer.clone()], buffer.clone(), 0_u64..99);
    let halves = (stream.clone(), buffer.clone(), 0_u64..99, any::<u8>());
    prop_oneof![
        10 => (launch, any::<u8>()).prop_map(|((stream, reads, write, salt), nap)| {
            Step::Launch { stream, reads, write, salt, nap }
        }),
        2 => halves.prop_map(|(stream, buffer, salt, nap)| {
            Step::Halves { stream, buffer, salt, nap }
        }),
        2 => (stream.clone(), prop_oneof![4 => 1_usize..3, 1 => 30_usize..40])
            .prop_map(|(stream, times)| Step::Mark { stream, times }),
        2 => (stream.clone(), 0_usize..9).prop_map(|(stream, mark)| Step::WaitFor { stream, mark }),
        1 => stream.clone().prop_map(|stream| Step::Sync { stream }),
        1 => (buffer.clone(), 0_u64..99).prop_map(|(buffer, salt)| Step::Write { buffer, salt }),
        1 => buffer.clone().prop_map(|buffer| Step::Read { buffer }),
        1 => stream.prop_map(|stream| Step::Reopen { stream }),
        1 => buffer.prop_map(|buffer| Step::Replace { buffer }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    (2_usize..=3, 1_usize..=4, 0_usize..6, prop::collection::vec(step(), 1..25))
        .prop_map(|(streams, buffers, len, steps)| Program { streams, buffers, len, steps })
}

/// Changes `to`, in a way that no other order of changes gives, resting on the way.
fn churn(to: &mut [u64], from: &[&[u64]], salt: u64, nap: u8) {
    for i in 0..to.len() {
        if i == to.len() / 2 {
            thread::sleep(Duration::from_micros(nap.into()));
        }
        to[i] = to[i].wrapping_mul(31).wrapping_add(salt + 1);
        for from in from {
            to[i] = to[i].wrapping_mul(17) ^ from.get(i).copied().unwrap_or(salt);
        }
    }
}

/// The device and the model, step by step.
struct Run {
    host: Host,
    streams: Vec<Stream<Host>>,
    marks: Vec<Mark<Host>>,
    buffers: Vec<Buffer<u64, Host>>,
    model: Vec<Vec<u64>>,
}

impl Run {
    fn of(program: &Program) -> Result<(), TestCaseError> {
        let fail = |error: Error| TestCaseError::fail(error.to_string());
        let mut run = Self::start(program).map_err(fail)?;
        for step in &program.steps {
            run.step(step).map_err(fail)?;
            if let Step::Read { buffer } = step {
                run.look(buffer % program.buffers)?;
            }
        }
        (0..program.buffers).try_for_each(|buffer| run.look(buffer))
    }

    fn start(program: &Program) -> Result<Self> {
        let host = Host::local()?;
        let streams: Result<_> = (0..program.streams).map(|_| host.stream()).collect();
        let buffers: Result<_> = (0..program.buffers).map(|_| host.zeros(program.len)).collect();
        let model = vec![vec![0; program.len]; program.buffers];
        Ok(Self { host, streams: streams?, marks: Vec::new(), buffers: buffers?, model })
    }

    fn look(&self, buffer: usize) -> Result<(), TestCaseError> {
        let found = self.buffers[buffer].to_vec();
        let found = found.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&found, &self.model[buffer], "buffer {}", buffer);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let (streams, buffers) = (self.streams.len(), self.buffers.len());
        match *step {
            Step::Launch { stream, reads, write, salt, nap } => {
                let write = write % buffers;
                let mut reads = reads.map(|read| read % buffers).to_vec();
                reads.dedup();
                reads.retain(|&read| read != write);
                self.launch(stream % streams, &reads, write, salt, nap)
            }
            Step::Halves { stream, buffer, salt, nap } => {
                let (stream, buffer) = (&self.streams[stream % streams], buffer % buffers);
                let x = &mut self.buffers[buffer];
                let middle = x.len() / 2;
                let (low, mut high) = x.all_mut().split_at_mut(middle);
                let (from, to) = self.model[buffer].split_at_mut(middle);
                churn(to, &[from], salt, 0);
                stream.launch((&low, &mut high), move |(low, high), ()| {
                    churn(high, &[low], salt, nap);
                })
            }
            Step::Mark { stream, times } => {
                let marks = (0..times).map(|_| self.streams[stream % streams].mark());
                self.marks.extend(marks.collect::<Result<Vec<_>>>()?.pop());
                Ok(())
            }
            Step::WaitFor { stream, mark } => match self.marks.len() {
                0 => Ok(()),
                marks => self.streams[stream % streams].wait_for(&self.marks[mark % marks]),
            },
            Step::Sync { stream } => self.streams[stream % streams].sync(),
            Step::Write { buffer, salt } => {
                churn(&mut self.model[buffer % buffers], &[], salt, 0);
                self.buffers[buffer % buffers].copy_from(&self.model[buffer % buffers])
            }
            Step::Read { .. } => Ok(()),
            Step::Reopen { stream } => {
                self.streams[stream % streams] = self.host.stream()?;
                Ok(())
            }
            Step::Replace { buffer } => {
                let buffer = buffer % buffers;
                self.model[buffer].fill(0);
                self.buffers[buffer] = self.host.zeros(self.model[buffer].len())?;
                Ok(())
            }
        }
    }

    fn launch(
        &mut self,
        stream: usize,
        reads: &[usize],
        write: usize,
        salt: u64,
        nap: u8,
    ) -> Result<()> {
        let from: Vec<Vec<u64>> = reads.iter().map(|&read| self.model[read].clone()).collect();
        let from: Vec<&[u64]> = from.iter().map(Vec::as_slice).collect();
        churn(&mut self.model[write], &from, salt, 0);
        let stream = &self.streams[stream];
        let distinct = "buffers of one launch are distinct";
        match *reads {
            [a, b] => {
                let [a, b, to] = self.buffers.get_disjoint_mut([a, b, write]).expect(distinct);
                stream.launch((&*a, &*b, to), move |(a, b, to), ()| churn(to, &[a, b], salt, nap))
            }
            [a] => {
                let [a, to] = self.buffers.get_disjoint_mut([a, write]).expect(distinct);
                stream.launch((&*a, to), move |(a, to), ()| churn(to, &[a], salt, nap))
            }
            _ => {
                let to = &mut self.buffers[write];
                stream.launch(to, move |to, ()| churn(to, &[], salt, nap))
            }
        }
    }
}

/// `PROPTEST_CASES` scales the number of cases; nothing is written to the tree.
#[test]
fn programs_run_as_if_one_step_came_after_the_other() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let cases = config.cases.saturating_mul(4);
    if let Err(error) =
        TestRunner::new(Config { cases, ..config }).run(&program(), |program| Run::of(&program))
    {
        panic!("{error}");
    }
}

// Buffers.

#[test]
fn write_here_read_there_write_elsewhere() -> Result<()> {
    let host = Host::local()?;
    let (a, b, c) = (host.stream()?, host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(100)?, host.zeros::<i32>(100)?);
    let gate = Gate::new();
    let pass = gate.pass();
    a.launch(&mut x, |x, ()| {
        pass();
        x.fill(1);
    })?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    c.launch(&mut x, |x, ()| x.fill(2))?;
    thread::sleep(A_WHILE);
    assert!(!b.mark()?.is_reached()? && !c.mark()?.is_reached()?);
    gate.open();
    assert_eq!(y.to_vec()?, [1; 100]);
    assert_eq!(x.to_vec()?, [2; 100]);
    Ok(())
}

#[test]
fn a_writer_waits_for_a_reader_on_another_stream() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let mut x = host.from_slice(&[1, 2, 3])?;
    let (send, seen) = channel();
    let gate = Gate::new();
    let pass = gate.pass();
    a.launch(&x, move |x, ()| {
        pass();
        send.send(x.to_vec()).expect("the test waits");
    })?;
    b.launch(&mut x, |x, ()| x.fill(9))?;
    thread::sleep(A_WHILE);
    assert!(!b.mark()?.is_reached()?);
    gate.open();
    assert_eq!(x.to_vec()?, [9; 3]);
    assert_eq!(seen.recv(), Ok(vec![1, 2, 3]));
    Ok(())
}

#[test]
fn readers_do_not_wait_for_each_other() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let x = host.from_slice(&[1, 2, 3])?;
    let mut sum = host.zeros::<i32>(1)?;
    let gate = Gate::new();
    let pass = gate.pass();
    a.launch(&x, |_, ()| pass())?;
    b.launch((&x, &mut sum), |(x, sum), ()| sum[0] = x.iter().sum())?;
    assert_eq!(sum.to_vec()?, [6]);
    assert!(!a.mark()?.is_reached()? && !gate.is_open());
    Ok(())
}

#[test]
fn dropping_a_buffer_and_its_stream_loses_no_work() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    let (send, seen) = channel();
    let gate = Gate::new();
    let pass = gate.pass();
    stream.launch((), |(), ()| pass())?;
    stream.launch(&mut x, |x, ()| x[0] = 10)?;
    stream.launch(&x, move |x, ()| send.send(x.to_vec()).expect("the test waits"))?;
    drop(x);
    drop(stream);
    gate.open();
    assert_eq!(seen.recv(), Ok(vec![10, 2, 3]));
    Ok(())
}

// Host copies.

#[test]
fn a_copy_to_the_host_waits_for_writers_only() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    let gate = Gate::new();
    let (reads, writes) = (gate.pass(), gate.pass());
    stream.launch(&x, |_, ()| reads())?;
    assert_eq!(x.to_vec()?, [1, 2, 3]);
    assert!(!gate.is_open());
    stream.launch(&mut x, |x, ()| {
        writes();
        x.fill(4);
    })?;
    gate.open_later();
    let mut part = [0; 2];
    x.slice(1..3).copy_to(&mut part)?;
    assert!(gate.is_open());
    assert_eq!(part, [4; 2]);
    Ok(())
}

#[test]
fn a_copy_from_the_host_waits_for_readers() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    let (send, seen) = channel();
    let gate = Gate::new();
    let pass = gate.pass();
    stream.launch(&x, move |x, ()| {
        pass();
        send.send(x.to_vec()).expect("the test waits");
    })?;
    gate.open_later();
    x.slice_mut(0..1).copy_from(&[9])?;
    assert!(gate.is_open());
    assert_eq!(seen.recv(), Ok(vec![1, 2, 3]));
    assert_eq!(x.to_vec()?, [9, 2, 3]);
    Ok(())
}

// Marks.

#[test]
fn a_mark_right_after_a_use_is_all_that_the_next_stream_waits_for() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(3)?, host.zeros::<i32>(3)?);
    let gate = Gate::new();
    let pass = gate.pass();
    a.launch(&mut x, |x, ()| x.fill(1))?;
    let written = a.mark()?;
    a.launch((), |(), ()| pass())?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    assert_eq!(y.to_vec()?, [1; 3]);
    assert_eq!(x.to_vec()?, [1; 3]);
    assert!(written.is_reached()? && !a.mark()?.is_reached()? && !gate.is_open());
    Ok(())
}

#[test]
fn a_stream_waits_for_a_mark() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (send, seen) = channel();
    let (first, second) = (send.clone(), send.clone());
    let gate = Gate::new();
    let pass = gate.pass();
    b.launch((), move |(), ()| send.send("before").expect("the test waits"))?;
    let before = b.mark()?;
    a.launch((), move |(), ()| {
        pass();
        first.send("marked").expect("the test waits");
    })?;
    b.wait_for(&a.mark()?)?;
    b.launch((), move |(), ()| second.send("after").expect("the test waits"))?;
    until_reached(&before)?;
    thread::sleep(A_WHILE);
    assert!(!b.mark()?.is_reached()?);
    gate.open();
    b.sync()?;
    assert_eq!(seen.iter().collect::<Vec<_>>(), ["before", "marked", "after"]);
    Ok(())
}

#[test]
fn the_host_waits_for_a_mark_and_not_for_more() -> Result<()> {
    let comm = alone()?;
    let stream = comm.device().stream()?;
    let mut x = comm.device().zeros::<i32>(3)?;
    stream.launch(&mut x, |x, ()| x.fill(1))?;
    let mark = comm.mark(&stream)?;
    let gate = Gate::new();
    let pass = gate.pass();
    stream.launch((), |(), ()| pass())?;
    comm.wait(&mark)?;
    assert!(mark.is_reached()? && !gate.is_open());
    gate.open_later();
    comm.sync(&stream)?;
    assert!(gate.is_open());
    comm.finish()
}

// Panics.

#[test]
fn a_panic_surfaces_once_and_the_stream_goes_on() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.zeros::<i32>(3)?;
    let line = line!() + 1;
    stream.launch(&mut x, |x, ()| panic!("a panic that a test made, of {} elements", x.len()))?;
    match x.to_vec() {
        Err(error @ Error::Panicked(_)) => {
            let text = error.to_string();
            assert!(text.contains("a panic that a test made, of 3 elements"), "{text}");
            assert!(text.contains(&format!("tests/order.rs:{line}")), "{text}");
            assert!(!error.is_fatal() && !error.is_refusal());
        }
        other => panic!("{other:?} instead of a panic"),
    }
    x.to_vec()?;
    stream.sync()?;
    stream.launch(&mut x, |x, ()| x.fill(5))?;
    assert_eq!(x.to_vec()?, [5; 3]);
    Ok(())
}

#[test]
fn what_follows_a_panic_runs() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(3)?, host.zeros::<i32>(3)?);
    a.launch((), |(), ()| resume_unwind(Box::new("text")))?;
    a.launch(&mut x, |x, ()| x.fill(1))?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    // Who waits for this stream waits for that one too.
    assert_eq!(panicked(b.sync()), "text");
    a.sync()?;
    assert_eq!(x.to_vec()?, [1; 3]);
    assert_eq!(y.to_vec()?, [1; 3]);
    Ok(())
}

#[test]
fn each_stream_keeps_its_own_panic() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    a.launch((), |(), ()| resume_unwind(Box::new("one".to_owned())))?;
    b.launch((), |(), ()| resume_unwind(Box::new(2)))?;
    assert_eq!(panicked(b.sync()), "it gave no message");
    assert_eq!(panicked(a.sync()), "one");
    a.sync()?;
    b.sync()
}

#[test]
fn every_panic_surfaces_once() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let mut x = host.zeros::<i32>(3)?;
    a.launch(&x, |_, ()| resume_unwind(Box::new("one")))?;
    b.launch(&x, |_, ()| resume_unwind(Box::new("two")))?;
    // Overwriting waits for the readers, if they are not over.
    let waits = [x.copy_from(&[1; 3]), x.copy_from(&[1; 3]), a.sync(), b.sync()];
    let mut found: Vec<_> = waits.into_iter().filter(Result::is_err).map(panicked).collect();
    found.sort();
    assert_eq!(found, ["one", "two"]);
    x.copy_from(&[1; 3])?;
    assert_eq!(x.to_vec()?, [1; 3]);
    a.sync()?;
    b.sync()
}

/// Another stream that waits for this one may take the panic along, but not away from whoever reads
/// what the closure was to write.
#[test]
fn a_panic_surfaces_where_its_result_is_read() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(3)?, host.zeros::<i32>(3)?);
    a.launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    until_reached(&b.mark()?)?;
    assert_eq!(panicked(x.to_vec().map(drop)), "text");
    Ok(())
}

/// The mark is older than the panic, so who waits for the mark has nothing to do with it.
#[test]
fn a_panic_after_a_mark_stays_with_its_stream() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let mut x = host.zeros::<i32>(3)?;
    let gate = Gate::new();
    let pass = gate.pass();
    let before = a.mark()?;
    b.launch((), |(), ()| pass())?;
    b.wait_for(&before)?;
    a.launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
    until_reached(&a.mark()?)?;
    gate.open();
    b.sync()?;
    assert_eq!(panicked(x.to_vec().map(drop)), "text");
    Ok(())
}

#[test]
fn a_panic_on_a_communicators_stream_leaves_it_usable() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1, 2])?;
        if comm.rank().index() == 0 {
            comm.stream().launch((), |(), ()| resume_unwind(Box::new("text")))?;
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        if comm.rank().index() == 0 {
            assert_eq!(panicked(x.to_vec().map(drop)), "text");
        }
        assert_eq!(x.to_vec()?, [2, 4]);
        comm.health()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [4, 8]);
        comm.finish()
    })
}

// Waits inside a launch.

#[test]
fn a_closure_may_not_wait() -> Result<()> {
    let comm = alone()?;
    let (stream, other) = (comm.device().stream()?, comm.device().stream()?);
    let mut x = comm.device().from_slice(&[1, 2, 3])?;
    let (send, refusals) = channel();
    other.launch(&mut x, |x, ()| x[0] = 0)?;
    stream.launch((), move |(), ()| {
        let mark = other.mark().expect("a mark does not wait");
        let found = vec![
            ("to_vec", x.to_vec().map(drop)),
            ("copy_to", x.copy_to(&mut [0; 3])),
            ("copy_from", x.copy_from(&[4; 3])),
            ("to_vec", x.slice(0..1).to_vec().map(drop)),
            ("copy_from", x.slice_mut(0..1).copy_from(&[4])),
            ("sync", other.sync()),
            ("sync", comm.sync(&other)),
            ("wait", comm.wait(&mark)),
            ("barrier", comm.barrier()),
            ("gather_values", comm.gather_values(&1).map(drop)),
            ("broadcast_value", comm.broadcast_value(&1, 0).map(drop)),
        ];
        send.send((found, other, x)).expect("the test waits");
        drop(comm);
    })?;
    stream.sync()?;
    let (found, other, x) = refusals.recv().expect("the closure ran");
    for (operation, result) in found {
        match result {
            Err(error @ Error::WaitInLaunch(_)) => {
                assert!(error.is_refusal());
                let text = error.to_string();
                assert!(text.starts_with(operation), "{operation}: {text}");
                assert!(text.contains("tests/order.rs:"), "{operation}: {text}");
            }
            other => panic!("{operation}: {other:?} instead of a refusal"),
        }
    }
    other.sync()?;
    assert_eq!(x.to_vec()?, [0, 2, 3]);
    Ok(())
}

#[test]
fn a_closure_may_copy_what_nothing_uses() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let (send, copied) = channel();
    stream.launch((), move |(), ()| {
        let copy = || {
            let mut x = host.from_slice(&[1, 2, 3])?;
            x.slice_mut(0..1).copy_from(&[7])?;
            x.to_vec()
        };
        send.send(copy()).expect("the test waits");
    })?;
    stream.sync()?;
    assert_eq!(copied.recv().expect("the closure ran")?, [7, 2, 3]);
    Ok(())
}

/// Closures run on workers, of which there is always one more: neither a waiting thread nor a closure
/// that is held up keeps others from running.
#[test]
fn closures_that_are_held_up_hold_up_nobody_else() -> Result<()> {
    let host = Host::local()?;
    let gate = Gate::new();
    let (send, inside) = channel();
    let many = 2 * thread::available_parallelism().map_or(1, usize::from) + 1;
    let mut threads = Vec::new();
    for _ in 0..many {
        let (pass, send) = (gate.pass(), send.clone());
        host.stream()?.launch((), move |(), ()| {
            send.send(thread::current().id()).expect("the test waits");
            pass();
        })?;
        threads.push(inside.recv().expect("the closure runs"));
    }
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(2)?, host.zeros::<i32>(2)?);
    a.launch(&mut x, move |x, ()| {
        x.fill(1);
        send.send(thread::current().id()).expect("the test waits");
    })?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    assert_eq!(y.to_vec()?, [1; 2]);
    assert!(!gate.is_open());
    threads.extend(inside.recv());
    assert_eq!(threads.len(), many + 1);
    assert!(!threads.contains(&thread::current().id()));
    Ok(())
}

/// The same for closures that are all enqueued before the first of them runs.
#[test]
fn closures_that_come_at_once_all_run_at_once() -> Result<()> {
    if !inside("closures_that_come_at_once_all_run_at_once") {
        return Ok(());
    }
    let host = Host::local()?;
    let gate = Gate::new();
    let (send, running) = channel();
    let many = 2 * thread::available_parallelism().map_or(1, usize::from) + 1;
    let streams: Result<Vec<_>> = (0..many).map(|_| host.stream()).collect();
    for stream in &streams? {
        let (pass, send) = (gate.pass(), send.clone());
        stream.launch((), move |(), ()| {
            let _ = send.send(());
            pass();
        })?;
    }
    let running = (0..many).map_while(|_| running.recv_timeout(PATIENCE / 2).ok()).count();
    assert!(!gate.is_open());
    assert_eq!(running, many, "so many closures run");
    Ok(())
}

/// A barrier that was refused is no arrival: the other rank does not pass before this one has called
/// a barrier that counts.
#[test]
fn a_refused_barrier_lets_nobody_pass() -> Result<()> {
    let config = CommConfig::builder().deadline(Duration::from_secs(60)).build();
    let connect = |seat: Seat, ordinal| -> Result<_> {
        let device = Host::any(ordinal)?;
        let config = config.clone();
        Communicator::builder().seat(seat).device(device).config(config).build().connect()
    };
    let mut seats = Seat::local(2);
    let (second, first) = (seats.pop().expect("two"), seats.pop().expect("two"));
    let called = Mutex::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            let comm = connect(second, 1)?;
            let (send, back) = channel();
            let stream = comm.device().stream()?;
            stream.launch((), move |(), ()| {
                let refused = comm.barrier();
                send.send((comm, refused)).expect("the test waits");
            })?;
            let (comm, refused) = back.recv().expect("the closure ran");
            assert!(matches!(refused, Err(Error::WaitInLaunch(_))), "{refused:?}");
            thread::sleep(A_WHILE);
            *called.lock().expect("no panic") = true;
            // Whether this one counts is up to how the refusal was told.
            drop(comm.barrier());
            Ok(())
        });
        let comm = connect(first, 0)?;
        let passed = comm.barrier().is_ok();
        let early = passed && !*called.lock().expect("no panic");
        comm.abort();
        other.join().expect("the other rank")?;
        assert!(!early, "rank 0 passed a barrier that rank 1 was refused");
        Ok(())
    })
}
