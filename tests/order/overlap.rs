//! Two streams with two buffers that change places: each waits for what it needs, and not for what
//! the other has been given since.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;

use typed_nccl::{Buffer, Host, Result, Stream};

use super::gate::PATIENCE;

/// The first turn of which nothing may wait for too much: by then one stream has waited for more
/// of each than it needed.
const EXACT: i32 = 3;

/// Runs inside a closure.
type Pass = Box<dyn FnOnce() + Send>;

/// Two closures of which the first ends when the second has begun, and whether it gave that up.
fn first_after_second() -> (Pass, Pass, Arc<AtomicBool>) {
    let (begun, second) = channel();
    let gave_up = Arc::new(AtomicBool::new(false));
    let late = gave_up.clone();
    let first = move || late.store(second.recv_timeout(PATIENCE).is_err(), Relaxed);
    let second = move || begun.send(()).unwrap_or_default();
    (Box::new(first), Box::new(second), gave_up)
}

fn nothing() -> Pass {
    Box::new(|| {})
}

fn transfer(
    net: &Stream<Host>,
    next: &mut Buffer<i32, Host>,
    value: i32,
    pass: Pass,
) -> Result<()> {
    net.launch(next, move |next, ()| {
        pass();
        next.fill(value);
    })
}

fn work(
    compute: &Stream<Host>,
    present: &Buffer<i32, Host>,
    sum: &mut Buffer<i32, Host>,
    pass: Pass,
) -> Result<()> {
    compute.launch((present, sum), move |(present, sum), ()| {
        pass();
        sum[0] += present[0];
    })
}

/// The transfer of each turn is enqueued first, and ends only after the work of that turn.
#[test]
fn work_does_not_wait_for_a_transfer_that_was_enqueued_before() -> Result<()> {
    let host = Host::local()?;
    let (net, compute) = (host.stream()?, host.stream()?);
    let (mut present, mut next) = (host.from_slice(&[1])?, host.zeros::<i32>(1)?);
    let mut sum = host.zeros::<i32>(1)?;
    for turn in 0..6 {
        let (end, begin, gave_up) = first_after_second();
        transfer(&net, &mut next, turn + 2, if turn < EXACT { nothing() } else { end })?;
        work(&compute, &present, &mut sum, begin)?;
        net.sync()?;
        assert!(!gave_up.load(Relaxed), "turn {turn}: the work waited for the transfer");
        swap(&mut present, &mut next);
    }
    assert_eq!(sum.to_vec()?, [(1..=6).sum::<i32>()]);
    Ok(())
}

/// The work of each turn is enqueued first, and ends only after the transfer of that turn.
#[test]
fn a_transfer_does_not_wait_for_work_that_was_enqueued_before() -> Result<()> {
    let host = Host::local()?;
    let (net, compute) = (host.stream()?, host.stream()?);
    let (mut present, mut next) = (host.from_slice(&[1])?, host.zeros::<i32>(1)?);
    let mut sum = host.zeros::<i32>(1)?;
    for turn in 0..6 {
        let (end, begin, gave_up) = first_after_second();
        work(&compute, &present, &mut sum, if turn < EXACT { nothing() } else { end })?;
        transfer(&net, &mut next, turn + 2, begin)?;
        compute.sync()?;
        assert!(!gave_up.load(Relaxed), "turn {turn}: the transfer waited for the work");
        swap(&mut present, &mut next);
    }
    assert_eq!(sum.to_vec()?, [(1..=6).sum::<i32>()]);
    Ok(())
}
