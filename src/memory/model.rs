//! Recording uses on a device whose streams are lists, in every order in which two threads can take
//! its lock.
//!
//! Headers and stream counters are the real ones. The device's lock is loom's: whenever a thread
//! enqueues, waits or takes a point, the other one may go first.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::Mutex;
use loom::thread;

use super::turn::Turn;
use super::{Booking, Order, Uses};
use crate::Result;
use crate::backend::{AllocKind, Blame, Memory, Streams};
use crate::error::{Error, Site};
use crate::stream::StreamCore;

/// A device without memory.
enum Model {}

/// The operations enqueued on a stream, in order.
type Queue = Arc<Mutex<Vec<Entry>>>;

#[derive(Clone)]
enum Entry {
    Operation(&'static str),
    Wait(Point),
}

/// The point after the first `.1` entries.
#[derive(Clone)]
struct Point(Queue, usize);

impl Point {
    /// Whether an operation is before it, here or on a stream that was waited for.
    fn is_after(&self, operation: &str) -> bool {
        let Self(queue, len) = self;
        let before = queue.lock().expect("no panic")[..*len].to_vec();
        before.iter().any(|entry| match entry {
            Entry::Operation(name) => *name == operation,
            Entry::Wait(point) => point.is_after(operation),
        })
    }
}

// SAFETY: there is no memory.
unsafe impl Memory for Model {
    const KIND: &'static str = "model";
    type Block = ();

    fn alloc(_: u32, _: usize, _: AllocKind) -> Result<()> {
        Ok(())
    }

    unsafe fn read((): &(), _: usize, _: *mut u8, _: usize, _: Site) -> Result<()> {
        Ok(())
    }

    unsafe fn write((): &(), _: usize, _: *const u8, _: usize, _: Site) -> Result<()> {
        Ok(())
    }
}

// SAFETY: nothing ever runs.
unsafe impl Streams for Model {
    type Stream = Queue;
    type Point = Point;

    fn open(_: u32) -> Result<Queue> {
        Ok(Queue::default())
    }

    fn point(stream: &Queue) -> Result<Point> {
        Ok(Point(stream.clone(), stream.lock().expect("no panic").len()))
    }

    fn wait_for(stream: &Queue, point: &Point) -> Result<()> {
        stream.lock().expect("no panic").push(Entry::Wait(point.clone()));
        Ok(())
    }

    fn reached(_: &Point) -> Result<bool> {
        Ok(false)
    }

    fn pause(_: &Point, _: Duration) {}

    fn blame(_: &Point) -> Option<Blame> {
        None
    }

    fn take_error(_: &Point) -> Option<Error> {
        None
    }
}

type Stream = StreamCore<Model>;
type Header = Order<Model>;

/// Several headers, and whether their memory is written.
impl<const N: usize> Uses<Model> for [(&Header, bool); N] {
    fn each(&self, mut each: impl FnMut(&Header, bool) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|&(order, write)| each(order, write))
    }
}

fn enqueue(stream: &Stream, operation: &'static str) {
    stream.raw().lock().expect("no panic").push(Entry::Operation(operation));
}

/// How an operation is enqueued.
type Launch = fn(&Stream, &[(&Header, bool); 2], &'static str) -> Result<()>;

fn booked(stream: &Stream, uses: &[(&Header, bool); 2], operation: &'static str) -> Result<()> {
    let _booking = Booking::new(stream, *uses)?;
    enqueue(stream, operation);
    Ok(())
}

/// The old fault: a header showed the next number, and the operation's own waits used it up.
fn announced(stream: &Stream, uses: &[(&Header, bool); 2], operation: &'static str) -> Result<()> {
    let mut turn = Turn::default();
    for (order, write) in uses {
        order.wait(stream, *write, &mut turn)?;
        order.book(stream, stream.last_seq() + 1, *write, &turn);
    }
    enqueue(stream, operation);
    stream.number();
    Ok(())
}

/// One thread writes `a` and `b`, which others read; another waits for its stream meanwhile,
/// because of `x`, and then writes `a`.
fn handed_over(launch: Launch, refused: bool) {
    let open = || Stream::open(0).expect("a model's stream");
    let (first, second, readers) = (open(), open(), [open(), open()]);
    let [a, b, x, other] = [(); 4].map(|()| Header::default());
    for (reader, name) in readers.iter().zip(["a reader of b", "another reader of b"]) {
        launch(reader, &[(&b, false), (&other, false)], name).expect("enqueued");
    }
    launch(&first, &[(&x, true), (&other, false)], "a write of x").expect("enqueued");
    if refused {
        x.book(&first, first.last_seq() + 1, true, &Turn::default());
    }
    let wrote = thread::spawn(move || {
        launch(&first, &[(&a, true), (&b, true)], "a write of a and b").expect("enqueued");
        a
    });
    launch(&second, &[(&x, true), (&x, true)], "x on the other stream").expect("enqueued");
    let a = wrote.join().expect("no panic");
    launch(&second, &[(&a, true), (&x, false)], "a on the other stream").expect("enqueued");
    let end = Model::point(second.raw()).expect("a model's point");
    for before in ["a write of x", "a write of a and b", "a reader of b", "another reader of b"] {
        assert!(end.is_after(before), "`{before}` is not ordered before the use on another stream");
    }
}

#[test]
fn what_is_handed_over_is_waited_for() {
    loom::model(|| handed_over(booked, false));
}

/// The model detects the fault that it was made for.
#[test]
#[should_panic(expected = "`a write of a and b` is not ordered")]
fn numbers_that_are_announced_are_taken_by_waits() {
    loom::model(|| handed_over(announced, true));
}

/// Enqueuing that panics half-way has left something in the stream.
#[test]
fn what_a_panic_left_is_waited_for() {
    loom::model(|| {
        let open = || Stream::open(0).expect("a model's stream");
        let (first, second, x) = (open(), open(), Header::default());
        {
            let _booking = Booking::new(&first, (&x, true)).expect("nothing to wait for");
            first.mark().expect("a model's point");
            enqueue(&first, "half of it");
        }
        drop(Booking::new(&second, (&x, true)));
        assert!(Model::point(second.raw()).expect("a model's point").is_after("half of it"));
    });
}

/// Several communicators' windows may share memory: it stays under the lock until it is in none.
#[test]
fn memory_in_two_windows_is_booked_under_the_lock() {
    loom::model(|| {
        let (stream, x) = (Stream::open(0).expect("a model's stream"), Header::default());
        x.enter_window();
        x.enter_window();
        x.leave_window();
        x.book(&stream, 1, true, &Turn::default());
        assert!(!x.is_alone(&stream), "it is in a window still");
        x.leave_window();
        assert!(!x.is_alone(&stream), "who closes a window may not be who has the memory");
        x.book(&stream, 2, true, &Turn::default());
        assert!(x.is_alone(&stream));
    });
}
