//! Tensors of other libraries on the host: described, lent, adopted, exported.

use std::sync::Arc;

use typed_nccl::interop::{Described, Exported, Tensor, TensorPlace};
use typed_nccl::{
    AnyDevice, DType, Device, DynBuffer, Error, Failed, Host, NcclMem, Result, Seat, Sum,
};

type Dev = Host<AnyDevice>;

const HOST: TensorPlace = TensorPlace::OnHost { pinned: false };

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(matches!(error, Error::NotAdoptable(_)), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

fn described(values: &[f32]) -> Described {
    Described {
        library: "torch",
        address: values.as_ptr().addr(),
        dtype: DType::F32,
        shape: vec![values.len()],
        strides: None,
        place: HOST,
        writable: true,
    }
}

/// A tensor that owns its elements.
fn tensor(values: Vec<f32>) -> Tensor<Vec<f32>> {
    let _ = values.as_ptr().expose_provenance();
    // SAFETY: the vector's own elements, which nothing else uses.
    unsafe { Tensor::new(described(&values), values) }.expect("well described")
}

/// Another handle to the same elements.
fn again<O>(of: &Tensor<O>, range: std::ops::Range<usize>) -> Tensor {
    let address = of.address() + range.start * 4;
    let described = Described { address, shape: vec![range.len()], ..described(&[]) };
    // SAFETY: the tests keep the first one.
    unsafe { Tensor::new(described, ()) }.expect("well described")
}

fn refused(change: impl FnOnce(&mut Described)) -> Error {
    let values = vec![0.0_f32; 24];
    let mut described = described(&values);
    change(&mut described);
    // SAFETY: it is refused.
    unsafe { Tensor::new(described, values) }.map(drop).expect_err("a fault")
}

#[test]
fn each_fault_of_a_description_says_what_mends_it() {
    says(&refused(|it| it.shape = vec![3, 0]), &["Tensor::new, of torch", "no elements"]);
    says(&refused(|it| it.address = 0), &["null", "allocate"]);
    says(&refused(|it| it.address += 2), &["multiple of 4", "f32", "copy"]);
    says(&refused(|it| it.shape = vec![usize::MAX, 2]), &["more bytes"]);
    says(&refused(|it| it.shape = vec![usize::MAX / 4]), &["more bytes"]);
    let strided = |shape: &[usize], strides: &[isize]| {
        refused(|it| (it.shape, it.strides) = (shape.to_vec(), Some(strides.to_vec())))
    };
    // Every second one; broadcast; reversed; a gap between rows; strides of other dimensions.
    says(&strided(&[12], &[2]), &["[12]", "[2]", "`x.contiguous()`"]);
    says(&strided(&[6, 4], &[0, 1]), &["one piece"]);
    says(&strided(&[24], &[-1]), &["one piece"]);
    says(&strided(&[4, 5], &[6, 1]), &["one piece"]);
    says(&strided(&[4, 6], &[6]), &["one piece"]);
    let numpy = refused(|it| (it.library, it.strides) = ("numpy", Some(vec![2])));
    says(&numpy, &["of numpy", "`numpy.ascontiguousarray(x)`"]);
    let other = refused(|it| (it.library, it.strides) = ("jax", Some(vec![2])));
    says(&other, &["of jax", "a contiguous copy"]);
}

/// Other ranks would have other elements in their place.
#[test]
fn every_dense_order_is_described_and_c_order_is_used() -> Result<()> {
    let device = Dev::any(0)?;
    let values = vec![0.0_f32; 24];
    let orders: [(&[usize], Option<&[isize]>, bool); 8] = [
        (&[2, 3, 4], None, true),
        (&[2, 3, 4], Some(&[12, 4, 1]), true),
        (&[2, 3, 4], Some(&[1, 2, 6]), false),
        (&[2, 3, 4], Some(&[4, 8, 1]), false),
        (&[2, 1, 12], Some(&[1, 7, 2]), false),
        (&[2, 1, 12], Some(&[12, 7, 1]), true),
        (&[1, 24, 1], Some(&[999, 1, 0]), true),
        (&[], None, true),
    ];
    for (shape, strides, is_used) in orders {
        let (shape, strides) = (shape.to_vec(), strides.map(<[_]>::to_vec));
        let described = Described { shape: shape.clone(), strides, ..described(&values) };
        // SAFETY: the vector's elements.
        let mut x = unsafe { Tensor::new(described.clone(), ()) }?;
        assert_eq!((x.len(), x.shape()), (shape.iter().product(), shape.as_slice()));
        assert_eq!(x.strides(), described.strides.as_deref());
        assert_eq!((x.address(), x.place(), x.dtype()), (described.address, HOST, DType::F32));
        let lent = [device.lend(&x, |_| Ok(())), device.lend(&mut x, |_| Ok(()))];
        for outcome in lent.into_iter().chain([x.on(&device).map(drop).map_err(Error::from)]) {
            match outcome {
                Ok(()) => assert!(is_used, "{shape:?}, {described:?}"),
                Err(error) => {
                    assert!(!is_used, "{error}");
                    says(&error, &["of torch", "C order", "`x.contiguous()`", "`x.permute(..)`"]);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn tensors_are_lent_and_adopted() {
    let sums: Result<Vec<_>> = Host::spmd(2, |place| {
        let comm = place.init()?;
        let x = tensor(vec![comm.rank().index() as f32 + 1.0; 10]);
        let mut y = tensor(vec![0.0; 10]);
        comm.device().lend((&x, &mut y), |(x, y)| {
            assert_eq!((x.dtype(), x.len(), y.len()), (DType::F32, 10, 10));
            comm.all_reduce(&*x, y, Sum)?;
            comm.all_reduce_in_place(&mut y.slice_mut(8..10), Sum)?;
            let mut first = y.typed::<f32>()?;
            comm.all_reduce_in_place(&mut first.slice_mut(0..1), Sum)?;
            assert_eq!(x.slice(3..5).typed::<f32>()?.to_vec()?, x.typed::<f32>()?.to_vec()?[3..5]);
            Ok(())
        })?;
        let y = y.into_inner();
        assert_eq!(y[..3], [6.0, 3.0, 3.0]);
        assert_eq!(y[7..], [3.0, 6.0, 6.0]);

        let at = y.as_ptr();
        let mut buffer = tensor(y).on(comm.device())?;
        comm.all_reduce_in_place(&mut buffer, Sum)?;
        comm.all_reduce_in_place(&mut buffer.slice_mut(0..1), Sum)?;
        let y: Vec<f32> = buffer.into_inner().map_err(Error::from)?;
        assert_eq!(y.as_ptr(), at);
        let mut typed = tensor(y).on(comm.device())?.typed::<f32>()?;
        comm.all_reduce_in_place(&mut typed, Sum)?;
        let y: Vec<f32> = typed.into_inner().map_err(Error::from)?;
        comm.finish()?;
        Ok((y[0], y[1]))
    });
    assert_eq!(sums.expect("no error"), [(48.0, 12.0); 2]);
}

#[test]
fn a_type_that_is_another_is_named() -> Result<()> {
    let device = Dev::any(0)?;
    let mut x = tensor(vec![1.0; 4]);
    let error = device.lend(&mut x, |x| x.typed::<i32>().map(drop)).expect_err("another type");
    assert!(matches!(error, Error::OtherDType(_)) && error.to_string().contains("f32"), "{error}");
    device.lend(&x, |x| x.typed::<f64>().map(drop)).expect_err("another type");
    let buffer = x.on(&device)?;
    let Failed { error, value } = buffer.try_into_typed::<i32>().expect_err("another type");
    assert!(matches!(error, Error::OtherDType(_)), "{error}");
    value.typed::<u8>().map(drop).expect_err("another type");
    Ok(())
}

#[test]
fn elements_are_in_use_once() -> Result<()> {
    let device = Dev::any(0)?;
    let mut x = tensor(vec![1.0; 10]);
    let (mut rest, mut tail) = (again(&x, 4..10), again(&x, 9..10));
    let free = |device: &Dev, x: &mut Tensor<Vec<f32>>| device.lend(x, |_| Ok(()));
    let taken = |outcome: Result<()>| {
        says(&outcome.expect_err("in use"), &["in use", "of torch at tests/tensor.rs", "end that"]);
    };

    // Concurrent reads; an exclusive write, in one loan, in two, and in a buffer.
    device.lend((&x, &rest), |_| device.lend(&tail, |_| Ok(())))?;
    taken(device.lend((&x, &mut rest), |_| Ok(())));
    taken(device.lend((&mut x, &rest), |_| Ok(())));
    free(&device, &mut x)?;
    device.lend(&mut rest, |_| {
        taken(device.lend(&x, |_| Ok(())));
        taken(device.lend(&mut tail, |_| Ok(())));
        device.lend(&again(&x, 0..4), |_| Ok(()))
    })?;
    // Also when it ends by an error, or a panic.
    device.lend(&mut rest, |_| Err::<(), _>(Error::other("mine"))).expect_err("mine");
    let panics =
        std::panic::AssertUnwindSafe(|| device.lend(&mut rest, |_| -> Result<()> { panic!() }));
    std::panic::catch_unwind(panics).expect_err("it panics");
    free(&device, &mut x)?;

    let buffer = rest.on(&device)?;
    taken(device.lend(&tail, |_| Ok(())));
    let Failed { error, value: tail } = tail.on(&device).expect_err("in use");
    taken(Err(error));
    drop(buffer);
    let buffer = tail.on(&device)?;
    taken(device.lend(&x, |_| Ok(())));
    buffer.into_inner().map_err(Error::from)?;
    free(&device, &mut x)
}

#[test]
fn what_the_host_cannot_use_is_named_and_comes_back() -> Result<()> {
    let device = Dev::any(0)?;
    let values = vec![1.0_f32; 4];
    let make = |change: fn(&mut Described)| {
        let mut described = described(&values);
        change(&mut described);
        // SAFETY: the vector's elements; those described as being on a GPU are refused.
        unsafe { Tensor::new(described, ()) }
    };
    let mut there = make(|it| it.place = TensorPlace::OnGpu { ordinal: 3, stream: Some(0) })?;
    let error = device.lend(&mut there, |_| Ok(())).expect_err("on a GPU");
    says(&error, &["GPU 3", "the device is the host", "`x.cpu()`"]);
    let Failed { error, value } = there.on(&device).expect_err("on a GPU");
    says(&error, &["GPU 3"]);
    assert_eq!(value.address(), values.as_ptr().addr());

    let mut constant = make(|it| it.writable = false)?;
    let error = device.lend(&mut constant, |_| Ok(())).expect_err("read-only");
    says(&error, &["lend, of torch", "read-only", "`&x`"]);
    device.lend(&constant, |_| Ok(()))?;
    says(&constant.on(&device).expect_err("read-only").error, &["read-only"]);

    let pinned = make(|it| it.place = TensorPlace::OnHost { pinned: true })?;
    device.lend(&pinned, |_| Ok(()))?;
    let Failed { error, value } = pinned.nccl_on(&device).expect_err("not NCCL's");
    says(&error, &["nccl_on", "NCCL's", "`interop::torch::empty`"]);
    device.lend(&value, |_| Ok(()))
}

fn exported<D: Device>(device: &D, len: usize) -> Result<Tensor<Exported>> {
    let buffer = DynBuffer::nccl_zeros(device, DType::F32, len)?;
    Ok(Tensor::export(buffer, &[len], None)?)
}

/// Another library's tensor over memory that it was given, which keeps the memory.
fn theirs(of: Tensor<Exported>) -> Tensor<Arc<Exported>> {
    let described = Described { address: of.address(), shape: vec![of.len()], ..described(&[]) };
    // SAFETY: the owner keeps the elements.
    unsafe { Tensor::new(described, Arc::new(of.into_inner())) }.expect("well described")
}

#[test]
fn exported_memory_backs_a_window() {
    let outcome: Result<Vec<()>> = Host::spmd(2, |place| {
        let mut comm = place.init()?;
        let device = comm.device().clone();
        let tensor = theirs(exported(&device, 8)?);
        let view = again(&tensor, 0..8);
        let buffer = tensor.nccl_on(&device)?.typed::<f32>()?;
        let mut window = comm.register_window(buffer)?;
        says(&device.lend(&view, |_| Ok(())).expect_err("in use"), &["`nccl_on` of torch"]);
        window.copy_from(&[comm.rank().index() as f32 + 1.0; 8])?;
        comm.barrier()?;
        comm.put_signal(window.slice(0..2), comm.ring(1), window.at(4))?;
        comm.wait_signal(comm.ring(-1))?;
        let other = comm.ring(-1).index() as f32 + 1.0;
        assert_eq!(window.to_vec()?[4..6], [other; 2]);
        comm.barrier()?;
        comm.all_reduce_in_place(&mut window.slice_mut(7..8), Sum)?;
        assert_eq!(window.to_vec()?[7], 3.0);
        drop(comm.close(window)?);
        comm.finish()
    });
    outcome.expect("no error");
}

#[test]
fn only_the_start_of_what_was_given_out_is_nccls() -> Result<()> {
    let device = Dev::any(0)?;
    let whole = exported(&device, 8)?;
    let (part, more) = (again(&whole, 2..8), again(&whole, 0..9));
    let begin = again(&whole, 0..6);
    says(&part.nccl_on(&device).expect_err("not from the start").error, &["nccl_on"]);
    says(&more.nccl_on(&device).expect_err("more than there is").error, &["nccl_on"]);
    let buffer: DynBuffer<Dev, NcclMem> = begin.nccl_on(&device)?;
    assert_eq!((buffer.len(), buffer.dtype()), (6, DType::F32));
    // Exported again, it is the same memory under two names, and no longer in use.
    let second = Tensor::export(buffer, &[6], None)?;
    let first = theirs(whole);
    let address = first.address();
    drop(first);
    assert_eq!(second.address(), address);
    let buffer = theirs(second).nccl_on(&device)?;
    assert_eq!(buffer.typed::<f32>()?.to_vec()?, [0.0; 6]);

    let plain = Tensor::export(DynBuffer::zeros(&device, DType::F32, 8)?, &[2, 4], Some(&[1, 2]))?;
    assert_eq!((plain.shape(), plain.strides()), ([2, 4].as_slice(), Some([1, 2].as_slice())));
    says(&plain.nccl_on(&device).expect_err("Fortran order").error, &["C order"]);
    let plain = Tensor::export(DynBuffer::zeros(&device, DType::F32, 8)?, &[2, 4], None)?;
    says(&plain.nccl_on(&device).expect_err("plain memory").error, &["NCCL's"]);
    Ok(())
}

#[test]
fn what_cannot_be_exported_comes_back() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let buffer = DynBuffer::zeros(comm.device(), DType::F32, 8)?;
    let Failed { error, value } = Tensor::export(buffer, &[7], None).expect_err("another length");
    assert!(matches!(error, Error::BadLength(_)) && error.to_string().contains("[7]"), "{error}");
    let strides: &[isize] = &[5, 1];
    let failed = Tensor::export(value, &[2, 4], Some(strides)).expect_err("not dense");
    says(&failed.error, &["export", "one piece"]);
    let empty = failed.value.slice(0..0).len();
    assert_eq!(empty, 0);
    let none = DynBuffer::zeros(comm.device(), DType::F32, 0)?;
    says(&Tensor::export(none, &[0], None).expect_err("empty").error, &["no elements"]);
    comm.finish()
}
