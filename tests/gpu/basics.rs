//! Devices, memory, streams: without communication.

use typed_nccl::{Cuda, Device, Result};

pub(crate) fn host_copies_and_zeroes() -> Result<()> {
    let gpu = Cuda::local()?;
    for len in [0_usize, 1, 3, 1000, 1 << 20] {
        let values: Vec<u32> = (0..len as u32).map(|i| i ^ 0xa5a5).collect();
        let mut x = gpu.from_slice(&values)?;
        assert_eq!(x.to_vec()?, values);
        // What comes after it in the same memory is zero again.
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
