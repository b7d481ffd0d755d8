//! What one stream waits for on another, while work takes time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;

use typed_nccl::{Cuda, DeviceViewMut, RawStream, Result, Sum};

use crate::common::{apart, busy, connect, ranks};
use crate::kernel::combine;

/// Adds 1 to all of `x`, this often.
fn add(x: &mut DeviceViewMut<'_, u32>, times: u32, stream: RawStream<'_>) {
    for _ in 0..times {
        combine(x, [(None, 1), (None, 0), (None, 0)], 1, stream);
    }
}

/// Work that a closure enqueued before its panic is waited for; the mark is older.
pub(crate) fn what_a_closure_left_before_its_panic() -> Result<()> {
    let gpu = Cuda::local()?;
    let (first, second) = (gpu.stream()?, gpu.stream()?);
    let len = busy(1 << 22, 1 << 12);
    let mut x = gpu.zeros::<u32>(len)?;
    let mut pinned = gpu.pinned::<u32>(len)?;
    for turn in 1..=20 {
        first.launch(&mut x, |_, _| ())?;
        first.mark()?;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            first.launch(&mut x, |mut x, stream| {
                add(&mut x, 50, stream);
                resume_unwind(Box::new("a panic that a test made"));
            })
        }));
        assert!(panicked.is_err());
        pinned = second.download(&x, pinned)?.wait()?;
        assert!(pinned.as_slice().iter().all(|&one| one == 50 * turn), "turn {turn}");
    }
    Ok(())
}

/// One thread launches with `a` and `b`, which many streams still read. Another one waits for its
/// stream meanwhile, because of `x`. It has not waited for that launch when it gets `a`.
pub(crate) fn a_launch_that_is_still_waiting_is_not_waited_for() -> Result<()> {
    let Some([gpu, elsewhere]) = apart()? else { return Ok(()) };
    let len = busy(1 << 20, 1 << 12);
    let y = elsewhere.zeros::<u32>(1)?;
    let readers = (0..busy(400, 10)).map(|_| gpu.stream()).collect::<Result<Vec<_>>>()?;
    for turn in 0..busy(20, 4) {
        let (first, second, slow) = (gpu.stream()?, gpu.stream()?, gpu.stream()?);
        let [mut a, mut b] = [gpu.zeros::<u32>(len)?, gpu.zeros::<u32>(len)?];
        let (mut x, mut busy) = (gpu.zeros::<u32>(1)?, gpu.zeros::<u32>(busy(1 << 24, 1 << 14))?);
        slow.launch(&mut busy, |mut busy, stream| add(&mut busy, 200, stream))?;
        let mark = slow.mark()?;
        for reader in &readers {
            reader.wait_for(&mark)?;
            reader.launch(&b, |_, _| ())?;
        }
        first.launch((), |(), _| ())?;
        assert!(first.launch((&mut x, &y), |_, _| ()).is_err(), "memory of another GPU");
        let (send, begun) = channel();
        let a = std::thread::scope(|scope| {
            let launches = scope.spawn(move || -> Result<_> {
                send.send(()).expect("the test waits");
                first.launch((&mut a, &mut b), |(mut a, _), stream| add(&mut a, 50, stream))?;
                Ok(a)
            });
            begun.recv().expect("the thread is there");
            (0..turn * 500).for_each(|_| std::hint::spin_loop());
            second.launch(&mut x, |_, _| ())?;
            launches.join().expect("no panic")
        })?;
        let a = second.download(&a, gpu.pinned(len)?)?.wait()?;
        assert!(a.as_slice().iter().all(|&one| one == 50), "turn {turn}");
    }
    Ok(())
}

/// An urgent stream orders memory like any other.
pub(crate) fn a_stream_with_a_priority() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 40)?;
        let priorities = comm.device().stream_priorities()?;
        assert!(priorities.contains(&0), "{priorities:?}");
        // CUDA takes the nearest one that there is.
        for priority in [*priorities.start(), *priorities.end(), i32::MIN, i32::MAX] {
            let urgent = comm.device().stream_with_priority(priority)?;
            let mut x = comm.device().from_slice(&[1_i32; 1000])?;
            comm.on(&urgent).all_reduce_in_place(&mut x, Sum)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            let n = comm.size() as i32;
            assert_eq!(x.to_vec()?, [n * n; 1000]);
        }
        comm.finish()
    })
    .map(drop)
}
