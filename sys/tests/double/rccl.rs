//! RCCL by the same loader: what it is called, what it lacks, and what is said then.

use std::path::Path;

use fake_nccl::File;
use nccl_sys::*;

use crate::common::*;

fn load(path: impl AsRef<Path>) -> &'static Api {
    // SAFETY: the paths here lead to the double.
    unsafe { Api::load_from(path) }.expect("the double loads")
}

#[test]
fn a_path_or_a_folder_leads_to_it() {
    let folder = folder("rccl");
    let file = File::rccl(version("2.30.7"), &folder);
    assert!(file.path().ends_with("librccl.so.1"));
    let api = load(file.path());
    assert_eq!((api.library(), api.version()), (Library::Rccl, version("2.30.7")));
    assert!(std::ptr::eq(load(&folder), api), "the folder holds no NCCL");

    let (_fake, nccl) = release("2.30.7", "not_rccl");
    let (_fake, newest) = double("not_rccl_either");
    assert_eq!((nccl.library(), newest.library()), (Library::Nccl, Library::Nccl));
}

#[test]
fn what_it_lacks_has_a_name() {
    use Function::*;

    let api = load(File::rccl(version("2.30.7"), folder("rccl_lacks")).path());
    for there in [ncclAllReduce, ncclCommGrow, ncclCommSuspend, ncclPutSignal, ncclWinGetUserPtr] {
        assert!(api.has(there), "{there}");
    }
    for lacking in [ncclDevCommCreate, ncclCommQueryProperties, ncclParamGet, ncclTeamLsa] {
        let missing = api.missing(lacking);
        assert!(!api.has(lacking) && missing.is_never_there(), "{lacking}");
        let (needs, library) = (lacking.since(), Library::Rccl);
        assert_eq!(
            missing,
            MissingSymbol { function: lacking, needs, loaded: api.version(), library }
        );
        let words = format!(
            "the loaded RCCL 2.30.7 does not export {lacking}, which NCCL declares since {needs}"
        );
        assert_eq!(missing.to_string(), words);
    }
    assert_eq!(api.ncclDevCommCreate().err(), Some(api.missing(ncclDevCommCreate)));
}

/// The release of NCCL that it follows decides nothing where it had a function first.
#[test]
fn it_had_some_functions_before_nccl() {
    let api = load(File::rccl(version("2.21.5"), folder("rccl_first")).path());
    assert!(api.has(Function::ncclGather) && api.has(Function::ncclScatter));
    assert!(!api.has(Function::ncclAlltoAll) && !api.has(Function::ncclCommShrink));
    let comm = join(api, 0, 2);
    let gathered = call!(api, ncclGather(FROM, TO, 8, F32, 0, comm, STREAM));
    assert_eq!(gathered, OK);
}
