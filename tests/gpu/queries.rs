//! Queries of NCCL and of GPUs.

use std::time::Duration;

use typed_nccl::{Cuda, Error, NcclVersion, Result, Sum, library};

use crate::common::ranks;

pub(crate) fn properties() -> Result<()> {
    let n = ranks()?;
    println!("NCCL {}, built for CUDA {:?}", library::version()?, library::built_for()?);
    let found = Cuda::spmd(n, |place| -> Result<_> {
        let comm = place.init()?;
        let found = comm.properties();
        if let Ok(found) = &found {
            assert_eq!((found.rank, found.size), (comm.rank(), n));
            assert_eq!(found.device, comm.device().ordinal());
            if let Some(teams) = found.lsa_teams {
                assert_eq!(teams * comm.lsa_team()?.size, n);
            }
        }
        comm.finish()?;
        match found {
            Err(Error::Unsupported(_)) if library::version()? < NcclVersion::new(2, 29, 2) => {
                Ok(None)
            }
            found => found.map(Some),
        }
    })?;
    let hashes: Vec<_> = found.iter().flatten().map(|found| found.hash).collect();
    assert!(hashes.windows(2).all(|two| two[0] == two[1]), "{hashes:?}");
    found.first().into_iter().flatten().for_each(|found| println!("{found}"));
    Ok(())
}

pub(crate) fn timed_marks() -> Result<()> {
    Cuda::spmd(ranks()?, |place| -> Result<()> {
        let comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(1 << 20)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let start = comm.stream().timed_mark()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let end = comm.stream().timed_mark()?;
        comm.wait(&end)?;
        let took = end.since(&start)?.expect("both are reached");
        println!("rank {}: 4 MiB took {took:?}", comm.rank());
        assert!(took > Duration::ZERO && took < Duration::from_secs(10));
        assert_eq!(start.since(&end)?, Some(Duration::ZERO));
        comm.finish()
    })?;
    Ok(())
}
