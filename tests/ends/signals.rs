//! Signals of a rank that leaves before they are raised.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{CommConfig, Communicator, Seat};

use super::common::{Comm, device, pair};

/// Connects with signals before the first window.
fn connect(seat: Seat) -> Comm {
    let config = CommConfig::builder().early_signals(true).build();
    let device = device(seat.rank().index());
    let built = Communicator::builder().seat(seat).device(device).config(config).build();
    built.connect().expect("connected")
}

#[test]
fn a_signal_that_was_enqueued_before_its_sender_left_arrives() {
    let (gate, until_open) = channel::<()>();
    let (left, until_left) = channel::<()>();
    pair(
        move |seat| {
            let comm = connect(seat);
            let (inside, started) = channel();
            let work = comm.stream().launch((), move |(), ()| {
                inside.send(()).expect("heard");
                until_open.recv().ok();
            });
            work.expect("launched");
            started.recv().expect("it runs");
            comm.signal(1).expect("enqueued");
            left.send(()).expect("heard");
            drop(comm);
        },
        move |seat| {
            let comm = connect(seat);
            comm.wait_signal(0).expect("enqueued");
            until_left.recv().expect("the peer speaks");
            thread::sleep(Duration::from_millis(100));
            drop(gate);
            comm.stream().sync().expect("the signal came");
            drop(comm.abort());
        },
    );
}
