//! One thread launches a graph while another one has a buffer that the graph refers to.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Cuda, DeviceViewMut, Error, Graph, RawStream,
    Result, Seat, Stream,
};

use crate::common::{clear, handle, says, until};
use crate::order::waits;
use crate::scenario::{NEWEST, cuda, on};

type Gpu = Cuda<AnyDevice>;

/// Time for another thread to make a forbidden move.
const WHILE: Duration = Duration::from_millis(100);

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(20);

fn count(function: &str) -> usize {
    cuda().called().iter().filter(|call| **call == function).count()
}

/// Enqueues setting all elements.
fn set(x: &mut DeviceViewMut<'_, u32>, to: u32, stream: RawStream<'_>) {
    let (address, len) = (x.as_mut_ptr() as u64, x.len());
    // SAFETY: this many elements exist.
    let set =
        unsafe { cudarc::driver::sys::cuMemsetD32Async(address, to, len, stream.as_ptr().cast()) };
    assert_eq!(set, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
}

/// A graph that sets the buffer's elements to 9.
fn nine(
    deadline: Duration,
) -> Result<(Communicator<Gpu>, Graph<Gpu>, Buffer<u32, Gpu>, Stream<Gpu>)> {
    let config = CommConfig::builder().deadline(deadline).build();
    let (seat, device) = (Seat::local(1).remove(0), Cuda::any(0)?);
    let mut comm =
        Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    let (mut x, stream) = (comm.device().zeros(4)?, comm.device().stream()?);
    let mut graph = comm.capture(|g| g.fill(&mut x, 9))?;
    graph.launch(&comm)?;
    Ok((comm, graph, x, stream))
}

/// A closure's work and a launch on another thread come one after the other.
#[test]
fn a_launch_comes_after_a_closure_on_another_thread() {
    on(NEWEST, || {
        let (comm, mut graph, mut x, stream) = nine(DEADLINE)?;
        let (own, side) = (handle(comm.stream())?, handle(&stream)?);
        let (starts, started) = channel();
        clear();
        let x = thread::scope(|scope| -> Result<_> {
            let owner = scope.spawn(move || -> Result<_> {
                stream.launch(&mut x, move |mut x, stream| {
                    let _ = starts.send(());
                    thread::sleep(WHILE);
                    set(&mut x, 7, stream);
                })?;
                Ok(x)
            });
            started.recv().expect("the closure runs");
            graph.launch(&comm)?;
            owner.join().expect("no panic")
        })?;
        assert_eq!(waits(), [(side, own), (own, side)]);
        let order: Vec<_> = cuda().called();
        let place = |function| order.iter().position(|call| *call == function);
        assert!(place("cuMemsetD32Async") < place("cuGraphLaunch"), "{order:?}");
        assert_eq!(x.to_vec()?, [9; 4]);
        comm.finish()
    });
}

/// Conversely: work enqueued elsewhere meanwhile has its turn too.
#[test]
fn many_uses_on_two_threads_are_in_order() {
    on(NEWEST, || {
        let (comm, mut graph, mut x, stream) = nine(DEADLINE)?;
        let mut y = comm.device().zeros::<u32>(4)?;
        thread::scope(|scope| -> Result<()> {
            let owner = scope.spawn(move || -> Result<()> {
                for round in 0..200 {
                    stream.fill(&mut x, round)?;
                    stream.copy(&x, &mut y)?;
                    let values = x.to_vec()?;
                    assert!(values == [round; 4] || values == [9; 4], "{values:?}");
                    x.copy_from(&[round; 4])?;
                }
                Ok(())
            });
            (0..200).try_for_each(|_| graph.launch(&comm))?;
            owner.join().expect("no panic")
        })?;
        comm.finish()
    });
}

/// The host reads earlier work, and later work comes after.
#[test]
fn a_launch_comes_after_a_read_on_another_thread() {
    on(NEWEST, || {
        let (comm, mut graph, x, _) = nine(DEADLINE)?;
        let own = handle(comm.stream())?;
        cuda().hold(own);
        graph.launch(&comm)?;
        clear();
        let reads = thread::spawn(move || x.to_vec());
        until("it asks again and again", || count("cuEventQuery") > 3);
        let launches = thread::spawn(move || graph.launch(&comm).map(|()| comm));
        thread::sleep(WHILE);
        assert_eq!(count("cuGraphLaunch"), 0, "the other thread is about to read");
        cuda().release(own);
        assert_eq!(reads.join().expect("no panic")?, [9; 4]);
        let comm = launches.join().expect("no panic")?;
        let order = cuda().called();
        let place = |function| order.iter().position(|call| *call == function);
        assert!(place("cuMemcpyDtoHAsync_v2") < place("cuGraphLaunch"), "{order:?}");
        comm.finish()
    });
}

/// It may come neither before the closure's upcoming work nor after it.
#[test]
fn a_closure_cannot_launch_a_graph_of_its_memory() {
    on(NEWEST, || {
        let (comm, mut graph, mut x, stream) = nine(DEADLINE)?;
        let (send, back) = channel();
        clear();
        stream.launch(&mut x, move |_, _| {
            let _ = send.send((graph.launch(&comm), comm));
        })?;
        let (refused, comm) = back.recv().expect("it ran at the call");
        let error = refused.expect_err("the closure has the memory");
        assert!(matches!(&error, Error::MemoryInUse(_)), "{error}");
        says(&error, &["inside a closure", "launch the graph after it"]);
        assert_eq!(count("cuGraphLaunch"), 0);
        // No turn is held any more.
        stream.fill(&mut x, 3)?;
        assert_eq!(x.to_vec()?, [3; 4]);
        comm.health()?;
        comm.finish()
    });
}

#[test]
fn a_closure_that_waits_for_a_launch_ends_with_its_deadline() {
    on(NEWEST, || {
        let (comm, mut graph, mut x, stream) = nine(Duration::from_secs(3))?;
        let (starts, started) = channel();
        let (told, hears) = channel();
        clear();
        let owner = thread::spawn(move || -> Result<_> {
            stream.launch(&mut x, move |mut x, stream| {
                let _ = starts.send(());
                let _ = hears.recv();
                set(&mut x, 7, stream);
            })?;
            Ok(x)
        });
        started.recv().expect("the closure runs");
        let error = graph.launch(&comm).expect_err("the closure waits for it");
        assert!(matches!(&error, Error::MemoryInUse(_)), "{error}");
        says(&error, &["another thread", "after ", "let neither wait"]);
        assert_eq!((count("cuGraphLaunch"), comm.health()), (0, Err(error)));
        told.send(()).expect("the closure waits");
        drop(owner.join().expect("no panic")?);
        assert_eq!(count("cuMemsetD32Async"), 1);
        comm.abort();
        Ok(())
    });
}
