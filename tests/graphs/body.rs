//! Graphs on any device: captured, launched, and dropped.

use typed_nccl::{Buffer, Communicator, Device, Error, Result, Signals, SliceMut, Sum, World};

/// A sequence of operations on the same memory is launched repeatedly, and ordered with the
/// program's own operations in between.
pub(crate) fn launched_again<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let (n, own) = (comm.size() as u64, comm.rank().index() as u64);
    let ranks = n * (n - 1) / 2;
    let mut x = comm.device().zeros::<u64>(1000)?;
    let mut all = comm.device().zeros::<u64>(1000 * n as usize)?;
    let mut last = comm.device().zeros::<u64>(1)?;
    let mut graph = comm.capture(|g| {
        g.all_reduce_in_place(&mut x, Sum)?;
        g.all_gather(&x, &mut all)?;
        g.copy(all.slice(0..1), &mut last)?;
        g.fill(&mut x.slice_mut(0..10), 7)
    })?;
    assert_eq!(graph.len(), 4);
    // Nothing has run.
    assert_eq!((x.to_vec()?, last.to_vec()?), (vec![0; 1000], vec![0]));
    for round in 0..20 {
        x.copy_from(&[own + round; 1000])?;
        graph.launch(&comm)?;
        let sum = ranks + n * round;
        assert_eq!(all.to_vec()?, vec![sum; 1000 * n as usize], "round {round}");
        assert_eq!(last.to_vec()?, [sum]);
        assert_eq!(x.to_vec()?[8..12], [7, 7, sum, sum]);
    }
    // Without the host: each launch sums the last one's results.
    x.copy_from(&[1; 1000])?;
    for _ in 0..5 {
        graph.launch(&comm)?;
    }
    assert_eq!(x.to_vec()?[10], n.pow(5));
    // On another stream, and together with the program's own calls.
    let stream = comm.device().stream()?;
    stream.fill(&mut x, 1)?;
    graph.launch_on(&comm, &stream)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?[10], n * n);
    drop(graph);
    comm.finish()
}

/// Sends and receives, collectives beside each other, in groups.
pub(crate) fn groups<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let (n, own) = (comm.size() as u32, comm.rank().index() as u32);
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let mut mine = comm.device().zeros::<u32>(100)?;
    let mut theirs = comm.device().zeros::<u32>(100)?;
    let mut sums = comm.device().zeros::<u32>(100)?;
    let mut graph = comm.capture(|g| {
        g.group(|g| {
            g.all_reduce(&mine, &mut sums, Sum)?;
            g.send(&mine, right)?;
            g.recv(&mut theirs, left)
        })?;
        g.copy(&theirs, &mut mine)
    })?;
    mine.copy_from(&[own; 100])?;
    for round in 1..=2 * n {
        graph.launch(&comm)?;
        assert_eq!(mine.to_vec()?, [(own + n - round % n) % n; 100], "round {round}");
        assert_eq!(sums.to_vec()?, [n * (n - 1) / 2; 100]);
    }
    comm.finish()
}

/// Puts and waits in turns: a ring, twice around in each launch.
pub(crate) fn puts_and_waits<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let (n, own) = (comm.size() as u32, comm.rank().index() as u32);
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let mut out = comm.window::<u32>(10)?;
    let into = comm.window::<u32>(10)?;
    let mut signals = Signals::new();
    signals.expect(left);
    let mut graph = comm.capture(|g| {
        for _ in 0..2 {
            g.put_signal(&out, right, into.at(0))?;
            g.wait_signals(&signals)?;
            g.copy(into.local(), &mut out.local_mut())?;
            // The next put must not come before this copy.
            g.signal(left)?;
            g.wait_signal(right)?;
        }
        Ok(())
    })?;
    out.copy_from(&[own; 10])?;
    for round in 1..10 {
        graph.launch(&comm)?;
        assert_eq!(out.to_vec()?, [(own + 2 * n * round - 2 * round) % n; 10], "round {round}");
    }
    // Signals outside of graphs are separate.
    comm.signal(right)?;
    graph.launch(&comm)?;
    comm.wait_signal(left)?;
    comm.stream().sync()?;
    drop(graph);
    comm.close(out)?;
    comm.close(into)?;
    comm.finish()
}

/// A graph is stale once a window that any rank uses in it is closed, and in any other
/// communicator.
pub(crate) fn stale<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let mut window = comm.window::<f32>(10)?;
    let mut x = comm.device().zeros::<f32>(10)?;
    let is_first = comm.rank().index() == 0;
    // One rank's graph uses the window's memory; the graph is stale on the others too.
    let mut named = comm.capture(|g| {
        if is_first {
            g.fill(&mut window.local_mut(), 1.0)?;
        }
        g.all_reduce_in_place(&mut x, Sum)
    })?;
    let mut apart = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    named.launch(&comm)?;
    let window = comm.close(window)?;
    for _ in 0..2 {
        let error = named.launch(&comm).expect_err("its window is closed");
        assert!(matches!(error, Error::Stale(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("a graph of") && text.contains("was closed"), "{text}");
    }
    apart.launch(&comm)?;
    drop(window);
    let twin = comm.split::<Twin>(0, 0)?;
    let mut of_twin = {
        let mut twin = twin;
        let graph = twin.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        twin.finish()?;
        graph
    };
    let twin = comm.split::<Twin>(0, 0)?;
    let error = of_twin.launch(&twin).expect_err("another communicator's");
    assert!(matches!(error, Error::WrongCommunicator(_)), "{error}");
    twin.finish()?;
    comm.finish()
}

struct Twin;

impl typed_nccl::Label for Twin {
    type On<D: Device> = TwinOn<D>;
}

struct TwinOn<D>(std::marker::PhantomData<fn() -> D>);

impl<D: Device> World for TwinOn<D> {
    type Device = D;
    const NAME: &'static str = "Twin";
}

/// Operators with scalars on the host and on the device, dropped before the launches.
pub(crate) fn operators<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let mut x = comm.device().zeros::<u64>(100)?;
    let mut y = comm.device().zeros::<u64>(100)?;
    let tripled = comm.pre_mul_sum(3_u64)?;
    let scalar = comm.device().from_slice(&[5_u64])?;
    let times_five = comm.pre_mul_sum_device(scalar)?;
    let mut graph = comm.capture(|g| {
        g.all_reduce(&x, &mut y, &tripled)?;
        g.all_reduce_in_place(&mut x, &times_five)
    })?;
    drop((tripled, times_five));
    // Others reuse the dropped ones' places.
    let _others = (comm.pre_mul_sum(7_u64)?, comm.pre_mul_sum(9_u64)?);
    let n = comm.size() as u64;
    for _ in 0..10 {
        x.copy_from(&[1; 100])?;
        graph.launch(&comm)?;
        assert_eq!((y.to_vec()?, x.to_vec()?), (vec![3 * n; 100], vec![5 * n; 100]));
    }
    comm.finish()
}

/// A scalar in memory is set between launches; the host waits for none of them.
pub(crate) fn scalars<W: World>(mut comm: Communicator<W>) -> Result<()> {
    const ROUNDS: usize = 20;
    let (n, own) = (comm.size() as u64, comm.rank().index() as u64);
    let one = comm.device().from_slice(&[1_u64])?;
    let scaled = comm.pre_mul_sum_device(one)?;
    let x = comm.device().from_slice(&[1_u64; 1000])?;
    let mut sums = comm.device().zeros::<u64>(1000)?;
    let mut all = comm.device().zeros::<u64>(1000 * 2 * ROUNDS)?;
    let mut graph = comm.capture(|g| g.all_reduce(&x, &mut sums, &scaled))?;
    let beside = comm.device().stream()?;
    fn part<D: Device>(all: &mut Buffer<u64, D>, at: usize) -> SliceMut<'_, u64, D> {
        all.slice_mut(1000 * at..1000 * (at + 1))
    }
    for round in 0..ROUNDS {
        comm.set_scalar(&scaled, own + round as u64)?;
        graph.launch(&comm)?;
        comm.stream().copy(&sums, &mut part(&mut all, 2 * round))?;
        // A separate call reads the same scalar, on another stream.
        comm.set_scalar(&scaled, own + 100 + round as u64)?;
        comm.on(&beside).all_reduce(&x, &mut sums, &scaled)?;
        comm.stream().copy(&sums, &mut part(&mut all, 2 * round + 1))?;
    }
    let ranks = n * (n - 1) / 2;
    for (round, found) in all.to_vec()?.chunks(2000).enumerate() {
        let of = |first: u64| ranks + n * (first + round as u64);
        assert_eq!((found[0], found[999]), (of(0), of(0)), "launch {round}");
        assert_eq!((found[1000], found[1999]), (of(100), of(100)), "call {round}");
    }
    comm.finish()
}

/// Captured memory stays registered as long as the graph.
pub(crate) fn registered<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let mut x = comm.device().nccl_zeros::<u32>(1000)?;
    let registration = comm.register_buffer(&x)?;
    let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    let error = comm.deregister_buffer(registration).expect_err("a graph has captured it");
    assert!(matches!(error, Error::NotAdoptable(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("deregister_buffer") && text.contains("a graph that captured it"),
        "{text}"
    );
    x.copy_from(&[1; 1000])?;
    graph.launch(&comm)?;
    assert_eq!(x.to_vec()?, vec![comm.size() as u32; 1000]);
    drop(graph);
    let registration = comm.register_buffer(&x)?;
    comm.deregister_buffer(registration)?;
    comm.finish()
}

/// Communicators end while there are graphs of theirs, which may outlive them.
pub(crate) fn ends<W: World>(mut comm: Communicator<W>, how: &str) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u32; 100])?;
    let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    let kept = comm.capture(|g| g.fill(&mut x, 3))?;
    graph.launch(&comm)?;
    let n = comm.size() as u32;
    match how {
        "finish" => comm.finish()?,
        "abort" => {
            assert_eq!(x.to_vec()?, [n; 100]);
            // All ranks have read before one ends it for the others.
            comm.barrier()?;
            comm.abort();
        }
        "drop" => drop(comm),
        other => panic!("{other} is no end"),
    }
    if how != "drop" {
        assert_eq!(x.to_vec()?, [n; 100]);
    }
    drop((graph, kept));
    Ok(())
}
