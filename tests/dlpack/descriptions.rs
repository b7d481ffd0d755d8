//! A tensor's description: shape, strides, version, place.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

use typed_nccl::error::AdoptFault;
use typed_nccl::interop::TensorPlace;
use typed_nccl::interop::dlpack::{
    self, ConsumerStream, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
};
use typed_nccl::{Error, Host, Seat, Sum};

use super::foreign::{Foreign, import, refused, versioned};
use super::{Dev, READ_ONLY};

#[test]
fn every_dense_order_is_taken_and_c_order_is_lent() {
    let device = Dev::any(0).expect("a device");
    let values: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let dense: [(&[i64], Option<&[i64]>, bool); 6] = [
        (&[2, 3, 4], None, true),
        (&[2, 3, 4], Some(&[12, 4, 1]), true),
        (&[2, 3, 4], Some(&[1, 2, 6]), false),
        (&[2, 3, 4], Some(&[4, 8, 1]), false),
        (&[24, 1], Some(&[1, 77]), true),
        (&[1, 24, 1], Some(&[0, 1, 0]), true),
    ];
    for (shape, strides, is_lent) in dense {
        let mut foreign = Foreign::floats(shape, &values);
        foreign.strides = strides.map(<[_]>::to_vec);
        let tensor = versioned(foreign).expect("dense");
        assert_eq!(tensor.shape().len(), shape.len());
        assert_eq!(tensor.len(), 24);
        let lent = device.lend(&tensor, |_| Ok(()));
        for outcome in [lent, tensor.on(&device).map(drop).map_err(Error::from)] {
            match outcome {
                Ok(()) => assert!(is_lent, "{strides:?}"),
                Err(Error::NotAdoptable(it)) => {
                    assert!(matches!(it.fault, AdoptFault::OtherOrder { .. }), "{it}");
                    assert!(!is_lent, "{it}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    let strided: [(&[i64], &[i64]); 5] = [
        (&[2, 3], &[4, 1]),
        (&[2, 3], &[-3, -1]),
        (&[2, 3], &[0, 1]),
        (&[2, 3], &[i64::MIN, i64::MAX]),
        (&[2, 3], &[1, 1]),
    ];
    for (shape, strides) in strided {
        let mut foreign = Foreign::floats(shape, &values);
        foreign.strides = Some(strides.to_vec());
        let (fault, text) = refused(foreign);
        assert!(matches!(fault, AdoptFault::Strided { .. }), "{strides:?}: {text}");
    }
    let mut scalar = Foreign::floats(&[], &values[..1]);
    scalar.shape = None;
    assert_eq!(versioned(scalar).expect("one element").len(), 1);
}

#[test]
fn what_is_not_there_is_named() {
    let floats = || Foreign::floats(&[2], &[1.0, 2.0]);
    let cases: Vec<(&str, Foreign, fn(&AdoptFault) -> bool)> = vec![
        ("no elements", Foreign::floats(&[3, 0], &[]), |it| matches!(it, AdoptFault::Empty)),
        ("null", Foreign { data: Some(0), ..floats() }, |it| matches!(it, AdoptFault::Null)),
        ("null", Foreign { data: Some(0), offset: 64, ..floats() }, |it| {
            matches!(it, AdoptFault::Null)
        }),
        ("no multiple of 4", Foreign { offset: 2, ..floats() }, |it| {
            matches!(it, AdoptFault::Misaligned { .. })
        }),
        ("more bytes", Foreign { offset: u64::MAX, ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("more bytes", Foreign { shape: Some(vec![i64::MAX, 4]), ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("more bytes", Foreign { shape: Some(vec![i64::MAX / 2]), ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("-1 axes", Foreign { axes: Some(-1), ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        ("without a shape", Foreign { axes: Some(2), shape: None, ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        ("less than 0", Foreign { shape: Some(vec![-2, -1]), ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        (
            "ROCm",
            Foreign { device: DLDevice { device_type: 10, device_id: 1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
        (
            "CUDA",
            Foreign { device: DLDevice { device_type: 2, device_id: -1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
        (
            "kind 99",
            Foreign { device: DLDevice { device_type: 99, device_id: 1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
    ];
    for (part, foreign, is) in cases {
        let (fault, text) = refused(foreign);
        assert!(is(&fault), "{fault:?}");
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_version_says_whether_it_can_be_read() {
    let floats = |version| Foreign { version, ..Foreign::floats(&[2], &[1.0, 2.0]) };
    for known in [(1, 0), (1, 3), (1, 99)] {
        assert!(versioned(floats(known)).is_ok(), "{known:?}");
    }
    for unknown in [(0, 8), (2, 0), (u32::MAX, 0)] {
        let (fault, text) = refused(floats(unknown));
        let (major, minor) = unknown;
        assert_eq!(fault, AdoptFault::DlpackVersion { major, minor });
        assert!(text.contains(&format!("DLPack {major}.{minor}")), "{text}");
    }
}

#[test]
fn a_newer_major_is_not_looked_into() {
    // The fields that every version has.
    #[repr(C)]
    struct Future {
        version: DLPackVersion,
        context: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
        flags: u64,
    }
    unsafe extern "C" fn delete(it: *mut Future) {
        // SAFETY: the test leaked it.
        drop(unsafe { Box::from_raw(it) });
    }
    let version = DLPackVersion { major: 2, minor: 0 };
    let future = Future { version, context: std::ptr::null_mut(), deleter: delete, flags: 0 };
    let raw = NonNull::from(Box::leak(Box::new(future))).cast::<DLManagedTensorVersioned>();
    // SAFETY: everything that `import` may read is present.
    match unsafe { dlpack::import(raw) } {
        Err(Error::NotAdoptable(it)) => {
            assert_eq!(it.fault, AdoptFault::DlpackVersion { major: 2, minor: 0 });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_read_only_is_only_read() {
    let comm = Seat::local(1).remove(0).init(Host::local().expect("a device")).expect("alone");
    let device = comm.device();
    let read_only = || Foreign { flags: READ_ONLY, ..Foreign::floats(&[2], &[1.0, 2.0]) };
    let mut x = versioned(read_only()).expect("floats");
    let mut y = device.zeros::<f32>(2).expect("memory");
    device.lend(&x, |x| comm.all_reduce(&x.typed::<f32>()?, &mut y, Sum)).expect("it is read");
    assert_eq!(y.to_vec().expect("values"), [1.0, 2.0]);
    let is_read_only = |error: Error| match error {
        Error::NotAdoptable(it) => assert_eq!(it.fault, AdoptFault::ReadOnly),
        other => panic!("{other}"),
    };
    is_read_only(device.lend(&mut x, |_| Ok(())).expect_err("it would be written"));
    let failed = x.on(device).expect_err("a buffer can be written");
    is_read_only(failed.error);
    assert_eq!(failed.value.len(), 2, "it comes back");
    // The old form has no flags, and unknown flags have no meaning here.
    let (old, _) = import::<DLManagedTensor>(read_only());
    drop(old.expect("floats").on(device).expect("to be written"));
    drop(
        versioned(Foreign { flags: !READ_ONLY, ..read_only() })
            .expect("floats")
            .on(device)
            .expect("too"),
    );
}

#[test]
fn where_it_is_decides_who_can_use_it() {
    let device = Dev::any(0).expect("a device");
    let at = |device_type, device_id| Foreign {
        device: DLDevice { device_type, device_id },
        ..Foreign::floats(&[2], &[1.0, 2.0])
    };
    let pinned = versioned(at(3, 0)).expect("floats");
    assert_eq!(pinned.place(), TensorPlace::OnHost { pinned: true });
    let buffer = pinned.on(&device).expect("it is the host's");
    assert_eq!(buffer.typed::<f32>().expect("f32").to_vec().expect("values"), [1.0, 2.0]);
    for kind in [2, 13] {
        let gpu = versioned(at(kind, 1)).expect("floats");
        assert_eq!(gpu.place(), TensorPlace::OnGpu { ordinal: 1, stream: None });
        let failed = gpu.on(&device).expect_err("a GPU's");
        assert!(failed.error.to_string().contains("GPU 1"), "{}", failed.error);
    }
    let (raw, deleted) = at(2, 0).raw::<DLManagedTensorVersioned>();
    // SAFETY: the tensor is the test's, and nothing uses it.
    let gpu = unsafe { dlpack::import_on(raw, ConsumerStream::PER_THREAD) }.expect("floats");
    assert_eq!(gpu.place(), TensorPlace::OnGpu { ordinal: 0, stream: Some(2) });
    drop(gpu);
    assert_eq!(deleted.load(SeqCst), 1);
    let (raw, deleted) = at(1, 0).raw::<DLManagedTensorVersioned>();
    // SAFETY: as above.
    let error = unsafe { dlpack::import_on(raw, ConsumerStream::LEGACY) }.expect_err("a stream");
    assert!(error.to_string().contains("no stream"), "{error}");
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn streams_by_their_numbers() {
    let of = ConsumerStream::from_protocol;
    assert_eq!(of(None).expect("the default"), ConsumerStream::LEGACY);
    assert_eq!(of(Some(1)).expect("by number"), ConsumerStream::LEGACY);
    assert_eq!(of(Some(2)).expect("by number"), ConsumerStream::PER_THREAD);
    assert_eq!(of(Some(-1)).expect("none"), ConsumerStream::Unordered);
    assert_eq!(of(Some(0x7f00)).expect("a handle").to_protocol(), 0x7f00);
    for number in [0, -2, i64::MIN] {
        let error = of(Some(number)).expect_err("no stream");
        assert!(error.to_string().contains(&format!("stream={number}")), "{error}");
    }
    for stream in [ConsumerStream::LEGACY, ConsumerStream::PER_THREAD, ConsumerStream::Unordered] {
        assert_eq!(of(Some(stream.to_protocol())).expect("its own"), stream);
    }
}
