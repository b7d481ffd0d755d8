//! Measures one operation at one size after the other, on one rank.

use std::time::Instant;

use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Bound, Values};
use typed_nccl::{
    Buffer, Communicator, Device, Graph, On, Rank, Result, Root, Slice, SliceMut, Sum, Window,
};

use crate::options::{Operation, Options};
use crate::values::{Case, Value};

/// The ranks' joint result at one size.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) bytes: u64,
    pub(crate) count: usize,
    /// Seconds per call.
    pub(crate) time: f64,
    /// The number of wrong elements, if checked.
    pub(crate) wrong: Option<u64>,
}

/// Measures every size; `tell` receives each result, on every rank.
pub(crate) fn measure<T: Value, D: Device>(
    mut comm: Communicator<D>,
    options: &Options,
    tell: &mut dyn FnMut(Found),
) -> Result<()> {
    let (ranks, rank) = (comm.size(), comm.rank().index());
    let (give, get) = options.op.blocks(ranks);
    let case = |bytes: u64| Case {
        op: options.op,
        redop: options.redop,
        in_place: options.in_place,
        ranks,
        rank,
        // As in nccl-tests: the size of the largest side, divided evenly.
        count: (bytes as usize / size_of::<T>() / give.max(get)).max(1),
    };
    // The largest size comes first and does not count, as in nccl-tests, since idle devices start
    // slowly.
    if let (true, Some(largest)) = (options.warmup > 0, options.sizes().last()) {
        let warm_up = Options { check: false, iters: options.warmup, ..options.clone() };
        one::<T, D>(&mut comm, &warm_up, case(*largest))?;
    }
    for bytes in options.sizes() {
        tell(one::<T, D>(&mut comm, options, case(bytes))?);
    }
    comm.finish()
}

fn one<T: Value, D: Device>(
    comm: &mut Communicator<D>,
    options: &Options,
    case: Case,
) -> Result<Found> {
    let (give, get) = case.lengths();
    // Zeros are as fast as any data, and quicker to make.
    let windows = options.window || case.op.takes_windows();
    let mut send = Memory::<T, D>::new(comm, give.max(1), windows)?;
    let mut recv = Memory::new(comm, get, windows)?;
    let mut way = match (options.plan, options.graph) {
        (true, _) => Way::Plan(Box::new(bind::<T, D>(comm, case, options)?)),
        (_, true) => {
            let mut of = |calls| capture(comm, case, calls, &send, &mut recv);
            Way::Graph(Box::new(Graphs { all: of(options.iters)?, one: of(1)? }))
        }
        _ => Way::Calls,
    };
    if options.warmup > 0 {
        way.calls(options.warmup, comm, case, &send, &mut recv)?;
    }
    comm.sync(comm.stream())?;
    comm.barrier()?;
    let start = Instant::now();
    way.calls(options.iters, comm, case, &send, &mut recv)?;
    comm.sync(comm.stream())?;
    let time = start.elapsed().as_secs_f64() / f64::from(options.iters);
    let wrong = match options.check {
        true => {
            let start = case.start::<T>();
            if case.in_place { &mut recv } else { &mut send }.all_mut().copy_from(&start)?;
            way.calls(1, comm, case, &send, &mut recv)?;
            let mut found = recv.all().to_vec()?;
            if let (true, Some(first)) = (options.spoil, found.first_mut()) {
                *first = T::of(first.get() + 1.0);
            }
            Some(case.wrong(&found))
        }
        false => None,
    };
    drop(way);
    send.close(comm)?;
    recv.close(comm)?;
    let all = comm.gather_values(&(time, wrong))?;
    let times: Vec<f64> = all.iter().map(|(time, _)| *time).collect();
    let wrong = all.iter().map(|(_, wrong)| *wrong).sum();
    let (give, get) = case.op.blocks(case.ranks);
    let bytes = (give.max(get) * case.count * size_of::<T>()) as u64;
    Ok(Found { bytes, count: case.count, time: options.average.of(&times), wrong })
}

/// One graph of all measured calls, and one of a single call.
struct Graphs<D: Device> {
    all: Graph<D>,
    one: Graph<D>,
}

/// How calls are made.
enum Way<D: Device> {
    Calls,
    Graph(Box<Graphs<D>>),
    Plan(Box<Bound<D>>),
}

impl<D: Device> Way<D> {
    /// Makes this many calls. There are graphs of one call and of all measured calls.
    fn calls<T: Value>(
        &mut self,
        count: u32,
        comm: &mut Communicator<D>,
        case: Case,
        send: &Memory<T, D>,
        recv: &mut Memory<T, D>,
    ) -> Result<()> {
        match self {
            Self::Graph(graphs) if count == 1 => graphs.one.launch(comm),
            Self::Graph(graphs) => graphs.all.launch(comm),
            Self::Calls if case.op == Operation::PutSignal => {
                let (on, peers) = (comm.on(comm.stream()), ring_of(comm));
                (0..count).try_for_each(|_| put(&on, peers, send, recv))
            }
            Self::Calls => {
                let (send, mut recv) = (send.all(), recv.all_mut());
                (0..count).try_for_each(|_| issue(comm, case, &send, &mut recv))
            }
            Self::Plan(plan) => (0..count).try_for_each(|_| run(plan, comm, send, recv)),
        }
    }
}

/// A buffer, or a window.
enum Memory<T: Value, D: Device> {
    Plain(Buffer<T, D>),
    Window(Window<T, D>),
}

impl<T: Value, D: Device> Memory<T, D> {
    fn new(comm: &mut Communicator<D>, len: usize, window: bool) -> Result<Self> {
        match window {
            // For a rooted operation in one buffer, only the root has the whole.
            true => comm.window_uneven(len).map(Self::Window),
            false => comm.device().zeros(len).map(Self::Plain),
        }
    }

    fn all(&self) -> Slice<'_, T, D> {
        match self {
            Self::Plain(buffer) => buffer.all(),
            Self::Window(window) => window.local(),
        }
    }

    fn all_mut(&mut self) -> SliceMut<'_, T, D> {
        match self {
            Self::Plain(buffer) => buffer.all_mut(),
            Self::Window(window) => window.local_mut(),
        }
    }

    fn close(self, comm: &mut Communicator<D>) -> Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Window(window) => comm.close(window).map(drop),
        }
    }
}

/// One call.
fn issue<T: Value, D: Device>(
    comm: &mut Communicator<D>,
    case: Case,
    send: &Slice<'_, T, D>,
    recv: &mut SliceMut<'_, T, D>,
) -> Result<()> {
    if case.op != Operation::Sendrecv {
        return collective(&comm.on(comm.stream()), case, send, recv);
    }
    let (right, left) = ring_of(comm);
    comm.group(|g| {
        g.send(send, right)?;
        g.recv(recv, left)
    })
}

/// The next rank, and the previous one.
fn ring_of<D: Device>(comm: &Communicator<D>) -> (Rank, Rank) {
    (comm.ring(1), comm.ring(-1))
}

/// One put into the next rank's window, and the wait for the previous rank's.
fn put<T: Value, D: Device>(
    on: &On<'_, D>,
    (right, left): (Rank, Rank),
    send: &Memory<T, D>,
    recv: &Memory<T, D>,
) -> Result<()> {
    let (Memory::Window(send), Memory::Window(recv)) = (send, recv) else { return Ok(()) };
    on.put_signal(send, right, recv.at(0))?;
    on.wait_signal(left)
}

/// A graph of this many calls.
fn capture<T: Value, D: Device>(
    comm: &mut Communicator<D>,
    case: Case,
    calls: u32,
    send: &Memory<T, D>,
    recv: &mut Memory<T, D>,
) -> Result<Graph<D>> {
    let (right, left) = ring_of(comm);
    if case.op == Operation::PutSignal {
        return comm.capture(|g| (0..calls).try_for_each(|_| put(g, (right, left), send, recv)));
    }
    let (send, mut recv) = (send.all(), recv.all_mut());
    comm.capture(|g| {
        (0..calls).try_for_each(|_| match case.op {
            Operation::Sendrecv => g.group(|g| {
                g.send(&send, right)?;
                g.recv(&mut recv, left)
            }),
            _ => collective(g, case, &send, &mut recv),
        })
    })
}

/// A collective, on a stream or in a graph.
fn collective<T: Value, D: Device>(
    comm: &On<'_, D>,
    case: Case,
    send: &Slice<'_, T, D>,
    recv: &mut SliceMut<'_, T, D>,
) -> Result<()> {
    let (redop, is_root) = (case.redop.get(), case.rank == 0);
    match (case.op, case.in_place) {
        (Operation::AllReduce, false) => comm.all_reduce(send, recv, redop),
        (Operation::AllReduce, true) => comm.all_reduce_in_place(recv, redop),
        (Operation::AllGather, false) => comm.all_gather(send, recv),
        (Operation::AllGather, true) => comm.all_gather_in_place(recv),
        (Operation::ReduceScatter, false) => comm.reduce_scatter(send, recv, redop),
        (Operation::ReduceScatter, true) => comm.reduce_scatter_in_place(recv, redop),
        (Operation::AllToAll, _) => comm.all_to_all(send, recv),
        (Operation::Broadcast, false) => {
            comm.broadcast(Root::here_or_at(is_root.then_some(send), 0), recv)
        }
        (Operation::Broadcast, true) => comm.broadcast_in_place(recv, 0),
        (Operation::Reduce, false) => {
            comm.reduce_into(send, Root::here_or_at(is_root.then_some(recv), 0), redop)
        }
        (Operation::Reduce, true) => comm.reduce_in_place(recv, redop, 0),
        (Operation::Gather, false) => {
            comm.gather_into(send, Root::here_or_at(is_root.then_some(recv), 0))
        }
        (Operation::Gather, true) => comm.gather_in_place(recv, 0),
        (Operation::Scatter, false) => {
            comm.scatter(Root::here_or_at(is_root.then_some(send), 0), recv)
        }
        (Operation::Scatter, true) => comm.scatter_in_place(recv, 0),
        // One is a group, the other takes windows.
        (Operation::Sendrecv | Operation::PutSignal, _) => Ok(()),
    }
}

/// Declares the operation over either kind of memory.
macro_rules! declare {
    ($plan:ident, $op:expr, $send:expr, $recv:expr) => {{
        let (send, recv, net) = ($send, $recv, $plan.stream("net"));
        let mut on = $plan.on(net);
        match $op {
            Operation::AllReduce => on.all_reduce(send, recv, Sum),
            Operation::AllGather => on.all_gather(send, recv),
            Operation::ReduceScatter => on.reduce_scatter(send, recv, Sum),
            Operation::AllToAll => on.all_to_all(send, recv),
            Operation::Broadcast => on.broadcast(send, recv, 0),
            Operation::Reduce => on.reduce(send, recv, Sum, 0),
            Operation::Gather => on.gather(send, recv, 0),
            Operation::Scatter => on.scatter(send, recv, 0),
            Operation::Sendrecv | Operation::PutSignal => on.transfer(send, ring(1), recv),
        }
    }};
}

/// A plan of one call, with the communicator.
fn bind<T: Value, D: Device>(
    comm: &mut Communicator<D>,
    case: Case,
    options: &Options,
) -> Result<Bound<D>> {
    let (give, get) = case.lengths();
    let (give, get) = (give as i64, get as i64);
    let mut plan = PlanBuilder::new(case.op.name());
    plan.ranks(case.ranks as i64);
    if options.graph {
        plan.captured();
    }
    if case.op == Operation::PutSignal {
        let (arrived, taken) = (plan.signal("arrived"), plan.signal("taken"));
        let net = plan.stream("net");
        let send = plan.window().input::<T::Plan>("send", give);
        let recv = plan.window().output::<T::Plan>("recv", get);
        let mut on = plan.on(net);
        on.put(send, ring(1), recv).signal(arrived);
        on.wait([arrived.from(ring(-1))]);
        // The next run overwrites `recv`, so a plan has to declare when it may.
        on.signal(taken, ring(-1));
        on.wait([taken.from(ring(1))]);
    } else if options.window {
        let send = plan.window().input::<T::Plan>("send", give);
        declare!(plan, case.op, send, plan.window().output::<T::Plan>("recv", get));
    } else {
        let send = plan.input::<T::Plan>("send", give);
        declare!(plan, case.op, send, plan.output::<T::Plan>("recv", get));
    }
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

fn run<T: Value, D: Device>(
    plan: &mut Bound<D>,
    comm: &Communicator<D>,
    send: &Memory<T, D>,
    recv: &mut Memory<T, D>,
) -> Result<()> {
    let on = plan.on(comm);
    match (send, recv) {
        (Memory::Plain(send), Memory::Plain(recv)) => {
            on.read("send", send).write("recv", recv).run(&mut ())
        }
        (Memory::Window(send), Memory::Window(recv)) => {
            on.read("send", send).write("recv", recv).run(&mut ())
        }
        _ => Ok(()),
    }
}
