//! Tensors exported to another library.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::error::AdoptFault;
use typed_nccl::interop::dlpack::{
    self, ConsumerStream, DLManagedTensor, DLManagedTensorVersioned, Layout,
};
use typed_nccl::{DType, DynBuffer, Error, Failed, Host, Seat};

use super::Dev;
use super::foreign::{Consumer, Foreign, versioned};

#[test]
fn what_an_exported_tensor_says() {
    let device = Dev::any(0).expect("a device");
    let out = |len: usize, shape: &[usize], layout: Layout<'_>| {
        let x = DynBuffer::zeros(&device, DType::I32, len).expect("memory");
        let raw = dlpack::export(x, shape, layout).expect("it fits").to_raw();
        Consumer::<DLManagedTensorVersioned>(raw.expect("nothing uses it"))
    };
    let padded = out(7, &[2, 3], Layout::Strides(&[4, 1]));
    assert_eq!((padded.shape(), padded.strides()), (&[2, 3][..], &[4, 1][..]));
    let scalar = out(1, &[], Layout::C);
    assert_eq!((scalar.tensor().ndim, scalar.data().is_null()), (0, false));
    let nothing = out(0, &[2, 0], Layout::C);
    assert_eq!((nothing.shape(), nothing.data().is_null()), (&[2, 0][..], true));
    // SAFETY: it is there.
    let whole = unsafe { padded.0.as_ref() };
    assert_eq!((whole.version.major, whole.flags), (1, 0));
    // SAFETY: the deleter accepts null.
    unsafe { whole.deleter.expect("there is one")(std::ptr::null_mut()) };

    let x = device.from_slice(&[1, 2, 3]).expect("memory");
    let failed = dlpack::export(x, &[2, 2], Layout::C).expect_err("four of three");
    let text = failed.error.to_string();
    assert!(text.contains("dlpack::export") && text.contains("[2, 2]"), "{text}");
    let failed = dlpack::export(failed.value, &[2, 2], Layout::Strides(&[0, 1]));
    let x = failed.expect_err("elements twice").value;
    let export = dlpack::export(x, &[3], Layout::C).expect("all three");
    // SAFETY: the host has no such stream and refuses it.
    let outcome = unsafe { export.to_raw_on::<DLManagedTensor>(ConsumerStream::LEGACY) };
    assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    // One for each consumer; what one writes, another reads.
    let [first, second] =
        [(); 2].map(|()| Consumer::<DLManagedTensor>(export.to_raw().expect("nothing uses it")));
    drop(export);
    // SAFETY: three elements.
    unsafe { first.data().cast::<i32>().write(9) };
    drop(first);
    // SAFETY: as above.
    assert_eq!(unsafe { second.data().cast::<[i32; 3]>().read() }, [9, 2, 3]);
}

#[test]
fn exporting_waits_for_what_was_enqueued() {
    let device = Dev::any(0).expect("a device");
    let stream = device.stream().expect("a stream");
    let mut x = device.zeros::<u8>(1).expect("memory");
    let (opens, open) = channel::<()>();
    let launched = stream.launch(&mut x, move |x, ()| {
        open.recv().expect("opened");
        x[0] = 7;
    });
    launched.expect("enqueued");
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        opens.send(()).expect("it waits");
    });
    let export = dlpack::export(x, &[1], Layout::C).expect("one");
    let consumer = Consumer::<DLManagedTensor>(export.to_raw().expect("no error"));
    // SAFETY: one element.
    assert_eq!(unsafe { consumer.data().cast::<u8>().read() }, 7);
    opener.join().expect("no panic");
}

#[test]
fn our_memory_is_found_again() {
    let mut comm = Seat::local(1).remove(0).init(Host::local().expect("a device")).expect("alone");
    let device = comm.device().clone();
    let x = device.nccl_zeros::<f32>(4).expect("memory");
    let export = dlpack::export(x, &[2, 2], Layout::C).expect("four");
    let consumer = Consumer::<DLManagedTensor>(export.to_raw().expect("nothing uses it"));
    let again = export.to_raw::<DLManagedTensorVersioned>().expect("nothing uses it");
    drop(export);
    // SAFETY: the consumer does not use it.
    let tensor = unsafe { dlpack::import(again) }.expect("ours");
    assert_eq!(tensor.address(), consumer.data().addr());
    let buffer = tensor.nccl_on(&device).expect("it is NCCL's").typed::<f32>().expect("f32");
    let window = comm.register_window(buffer).expect("it can back a window");
    drop(window);
    comm.finish().expect("no error");
    let at = consumer.data().addr();
    drop(consumer);

    let refused = |foreign| match versioned(foreign).expect("floats").nccl_on(&device) {
        Err(Failed { error: Error::NotAdoptable(it), .. }) => {
            assert_eq!(it.fault, AdoptFault::NotNccls);
        }
        other => panic!("{other:?}"),
    };
    let floats = || Foreign::floats(&[2], &[1.0, 2.0]);
    refused(floats());
    // The previous tensor has been deleted.
    refused(Foreign { data: Some(at), ..floats() });
}
