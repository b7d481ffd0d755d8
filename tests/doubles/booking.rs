//! When an operation's uses are recorded. Closures run at the call here, so they come between a
//! launch's waits and its end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;

use typed_nccl::{AnyDevice, Cuda, Result};

use crate::common::{clear, handle};
use crate::order::waits;
use crate::scenario::{NEWEST, cuda, on};

type Gpu = Cuda<AnyDevice>;

#[test]
fn a_refused_launch_books_nothing() {
    on(NEWEST, || {
        let (device, elsewhere) = (Gpu::any(0)?, Gpu::any(1)?);
        let (first, second) = (device.stream()?, device.stream()?);
        let (mut x, y) = (device.zeros::<f32>(8)?, elsewhere.zeros::<f32>(8)?);
        handle(&first)?;
        assert_error!(first.launch((&mut x, &y), |_, _| ()), OtherDevice, "operand");
        clear();
        second.launch(&mut x, |_, _| ())?;
        assert_eq!(waits(), []);
        Ok(())
    });
}

/// The other stream waits for this one during a launch, and so does not wait for the launch.
#[test]
fn a_wait_in_the_middle_of_a_launch_does_not_count_for_it() {
    on(NEWEST, || {
        let (device, elsewhere) = (Gpu::any(0)?, Gpu::any(1)?);
        let (first, second, reader) = (device.stream()?, device.stream()?, device.stream()?);
        let handles = (handle(&first)?, handle(&second)?);
        let [mut a, mut b, mut x] =
            [device.zeros::<f32>(8)?, device.zeros(8)?, device.zeros::<f32>(8)?];
        let y = elsewhere.zeros::<f32>(8)?;
        first.launch(&mut x, |_, _| ())?;
        assert_error!(first.launch((&mut x, &y), |_, _| ()), OtherDevice, "operand");
        let held = handle(&reader)?;
        cuda().hold(held);
        reader.launch(&b, |_, _| ())?;
        let (send, back) = channel();
        clear();
        first.launch((&mut a, &mut b), move |_, _| {
            let waited = second.launch(&mut x, |_, _| ());
            let _ = send.send((waited, second));
        })?;
        let (waited, second) = back.recv().expect("it ran at the call");
        waited?;
        second.launch(&mut a, |_, _| ())?;
        let again = (handles.1, handles.0);
        assert_eq!(waits(), [(handles.0, held), again, again]);
        Ok(())
    });
}

/// A closure that enqueues and then panics has enqueued. The mark is older.
#[test]
fn what_a_closure_enqueued_before_its_panic_is_waited_for() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (first, second) = (device.stream()?, device.stream()?);
        let handles = (handle(&first)?, handle(&second)?);
        let mut x = device.zeros::<f32>(8)?;
        first.launch(&mut x, |_, _| ())?;
        let mark = first.mark()?;
        let panicked = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
            first.launch(&mut x, |_, _| resume_unwind(Box::new("a panic that a test made")))
        }));
        assert!(panicked.is_err());
        clear();
        // It looks for a recording since the log was cleared; the mark's does not count.
        second.launch(&mut x, |_, _| ())?;
        assert_eq!(waits(), [(handles.1, handles.0)]);
        assert!(mark.is_reached()?);
        Ok(())
    });
}

/// A closure uses its stream during the launch.
#[test]
fn a_launch_inside_a_launch() {
    thread_local! {
        static STREAM: typed_nccl::Stream<Gpu> =
            Gpu::any(0).and_then(|device| device.stream()).expect("a stream of the double's");
    }
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let second = device.stream()?;
        let (mut x, mut y) = (device.zeros::<f32>(8)?, device.zeros::<f32>(8)?);
        let first = STREAM.with(handle)?;
        let (send, back) = channel();
        STREAM.with(|stream| {
            stream.launch(&mut x, move |_, _| {
                let inner = STREAM.with(|stream| {
                    stream.launch(&mut y, |_, _| ())?;
                    let mark = stream.mark()?;
                    // Still inside the launch, where it may not wait.
                    assert_error!(stream.sync(), WaitInLaunch, "sync");
                    Ok::<_, typed_nccl::Error>(mark)
                });
                let _ = send.send(inner);
            })
        })?;
        let mark = back.recv().expect("it ran at the call")?;
        clear();
        let waiting = handle(&second)?;
        second.launch(&mut x, |_, _| ())?;
        assert_eq!(waits(), [(waiting, first)], "what came after the mark is waited for too");
        assert!(mark.is_reached()?);
        Ok(())
    });
}
