//! Devices, memory, streams: without communication.

use typed_nccl::{AnyDevice, At, Cuda, Device, Error, Result, device_tag};

use crate::common::{apart, says};
use crate::runner;

pub(crate) fn host_copies_and_zeroes() -> Result<()> {
    let gpu = Cuda::local()?;
    for len in [0_usize, 1, 3, 1000, 1 << 20] {
        let values: Vec<u32> = (0..len as u32).map(|i| i ^ 0xa5a5).collect();
        let mut x = gpu.from_slice(&values)?;
        assert_eq!(x.to_vec()?, values);
        // Later allocations in the same memory are zeroed again.
        drop(x);
        assert!(gpu.zeros::<u32>(len)?.to_vec()?.iter().all(|&one| one == 0));
        x = gpu.zeros(len)?;
        x.copy_from(&values)?;
        assert_eq!(x.slice(len / 2..len).to_vec()?, values[len / 2..]);
    }
    assert_eq!(gpu.nccl_zeros::<f64>(100)?.to_vec()?, [0.0; 100]);
    assert_eq!(Device::ordinal(&gpu), 0);
    Ok(())
}

device_tag!(Trainer);

pub(crate) fn gpus_that_are_not_there() -> Result<()> {
    let count = Cuda::count()?;
    let error = Cuda::any(count as u32).expect_err("one too many");
    let name = format!("cuda:{count} was asked for");
    says(&error, &[&name, &format!("sees {count} GPUs"), "CUDA_VISIBLE_DEVICES"]);
    assert!(matches!(Cuda::<At<999>>::open(), Err(Error::NoSuchDevice(_))));
    if runner::shared() == 1 {
        let many = Cuda::spmd(count + 1, |place| -> Result<()> { place.init()?.finish() });
        assert!(matches!(many, Err(Error::NoSuchDevice(_))));
    }
    // A tag whose device could not be opened is free.
    assert!(Cuda::<Trainer>::open_as(999).is_err());
    assert_eq!(Cuda::<Trainer>::open_as(0)?.ordinal(), 0);
    Ok(())
}

pub(crate) fn more_memory_than_there_is() -> Result<()> {
    let gpu = Cuda::local()?;
    let kept = gpu.from_slice(&[1_u8, 2, 3])?;
    let error = gpu.zeros::<u64>(1 << 40).expect_err("8 TiB");
    says(&error, &["cuda:0 has no 8796093022208 bytes of memory to give"]);
    assert!(matches!(error, Error::NoMemory(_)));
    assert_eq!(kept.to_vec()?, [1, 2, 3]);
    // Dropped memory is available again, many times over.
    let gib = 1 << 30;
    for _ in 0..400 {
        drop(gpu.zeros::<u8>(gib)?);
    }
    drop(kept);
    gpu.trim()?;
    assert_eq!(gpu.from_slice(&[7_i8])?.to_vec()?, [7]);
    Ok(())
}

pub(crate) fn copies_of_pinned_memory() -> Result<()> {
    let gpu = Cuda::local()?;
    let (one, other) = (gpu.stream()?, gpu.stream()?);
    let len = 1 << 20;
    let mut pinned = gpu.pinned::<u32>(len)?;
    assert!(pinned.as_slice().iter().all(|&x| x == 0));
    let mut x = gpu.zeros::<u32>(len)?;
    for turn in 0..20_u32 {
        for (i, value) in pinned.as_mut_slice().iter_mut().enumerate() {
            *value = turn * 7919 + i as u32;
        }
        // Up on one stream, and down on another, which waits for the first by itself.
        let up = one.upload(pinned, &mut x)?;
        let down = other.download(&x, gpu.pinned(len)?)?;
        pinned = down.wait()?;
        assert!((0..).zip(pinned.as_slice()).all(|(i, &value)| value == turn * 7919 + i));
        // A copy that is not waited for keeps its memory.
        drop(up);
    }
    let short = gpu.pinned::<u32>(3)?;
    let failed = one.upload(short, &mut x).expect_err("the lengths differ");
    assert_eq!(failed.value.len(), 3);
    Ok(())
}

pub(crate) fn memory_of_another_gpu() -> Result<()> {
    let Some([first, second]) = apart()? else { return Ok(()) };
    let stream = first.stream()?;
    let mut there = second.zeros::<f32>(4)?;
    let error = stream.launch(&mut there, |_, _| ()).expect_err("of another GPU");
    says(&error, &["cuda", "1", "0"]);
    assert!(matches!(error, Error::OtherDevice(_)));
    let comm = typed_nccl::Seat::local(1).remove(0).init::<Cuda<AnyDevice>>(first)?;
    let error = comm.all_reduce_in_place(&mut there, typed_nccl::Sum).expect_err("as above");
    assert!(matches!(error, Error::OtherDevice(_)), "{error}");
    comm.finish()
}
