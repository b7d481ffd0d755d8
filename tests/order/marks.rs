//! Marks: points in a stream's order.

use std::sync::mpsc::channel;
use std::thread;

use typed_nccl::{Host, Result};

use crate::gate::{A_WHILE, Gate, alone, until_reached};

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
