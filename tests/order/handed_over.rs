//! Buffers that move from thread to thread, each thread with its own streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{Host, Result};

use super::gate::Gate;

/// How many streams read `b`, so that it takes a while to wait for all of them.
const READERS: usize = 400;

/// One thread launches with `a` and `b`. Another one waits for its stream meanwhile, because of
/// `x`, and has not waited for that launch when it gets `a`.
#[test]
fn a_launch_that_is_still_waiting_is_not_waited_for() -> Result<()> {
    let (host, elsewhere) = (Host::any(0)?, Host::any(1)?);
    for run in 0..20 {
        let gate = Gate::new();
        let (first, second, held) = (host.stream()?, host.stream()?, host.stream()?);
        let [mut a, mut b, mut x] = [host.zeros::<u8>(1)?, host.zeros::<u8>(1)?, host.zeros(1)?];
        let y = elsewhere.zeros::<u8>(1)?;
        let pass = gate.pass();
        held.launch((), |(), ()| pass())?;
        let mark = held.mark()?;
        for _ in 0..READERS {
            let reader = host.stream()?;
            reader.wait_for(&mark)?;
            reader.launch(&b, |_, ()| ())?;
        }
        first.launch((), |(), ()| ())?;
        assert!(first.launch((&mut x, &y), |_: (&mut [u8], _), ()| ()).is_err());
        let over = Arc::new(AtomicBool::new(false));
        let (send, begun) = channel();
        let mut a = thread::scope(|scope| {
            let over = over.clone();
            let launches = scope.spawn(move || -> Result<_> {
                send.send(()).expect("the test waits");
                first.launch((&mut a, &mut b), move |_, ()| {
                    thread::sleep(Duration::from_millis(3));
                    over.store(true, Ordering::Relaxed);
                })?;
                Ok(a)
            });
            begun.recv().expect("the thread is there");
            (0..run * 500).for_each(|_| std::hint::spin_loop());
            second.launch(&mut x, |_, ()| ())?;
            launches.join().expect("no panic")
        })?;
        let (send, seen) = channel();
        second.launch(&mut a, move |_, ()| {
            send.send(over.load(Ordering::Relaxed)).expect("the test waits");
        })?;
        gate.open();
        assert!(seen.recv().expect("it runs"), "two closures have `&mut` to one buffer at once");
        second.sync()?;
    }
    Ok(())
}
