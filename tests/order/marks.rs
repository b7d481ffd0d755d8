//! Marks: points in a stream's order.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{Host, Result};

use super::gate::{A_WHILE, Gate, alone, until_reached};

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

#[test]
fn timed_marks_measure_what_is_between_them() -> Result<()> {
    let host = Host::local()?;
    let (stream, other) = (host.stream()?, host.stream()?);
    let gate = Gate::new();
    let pass = gate.pass();
    let start = stream.timed_mark()?;
    stream.launch((), move |(), ()| {
        pass();
        thread::sleep(A_WHILE);
    })?;
    let end = stream.timed_mark()?;
    until_reached(&start)?;
    assert!(!end.is_reached()? && end.since(&start)?.is_none());
    // It works as any mark.
    other.wait_for(&end)?;
    gate.open();
    other.sync()?;
    let took = end.since(&start)?.expect("both are reached");
    assert!(took >= A_WHILE, "{took:?}");
    assert_eq!(start.since(&end)?, Some(Duration::ZERO));
    // Streams of one device have one clock.
    assert!(other.timed_mark()?.since(&start)?.is_none_or(|later| later >= took));
    let elsewhere = Host::any(1)?.stream()?.timed_mark()?;
    let start = Host::any(0)?.stream()?.timed_mark()?;
    let error = elsewhere.since(&start).expect_err("two devices").to_string();
    assert!(error.contains("the first mark is on host:0, this takes host:1"), "{error}");
    Ok(())
}
