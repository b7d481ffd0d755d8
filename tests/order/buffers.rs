//! Buffers order their own uses.

use std::sync::mpsc::channel;
use std::thread;

use typed_nccl::{Host, Result};

use super::gate::{A_WHILE, Gate};

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
