//! Compiled kernels, cached in files across processes.
//!
//! `TYPED_NCCL_CACHE` names the folder; by default it is `typed-nccl` in the user's cache folder,
//! and an empty value disables the cache. A file's name covers all inputs, and the file begins with
//! a digest of its contents, so a truncated or modified file is compiled anew. Files are written
//! under another name and renamed, so a process never sees a partial one. A failure here costs time
//! and nothing else.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process;

use blake2::{Blake2s256, Digest};

const ENVIRONMENT: &str = "TYPED_NCCL_CACHE";

/// Magic bytes, with the version of the format.
const MAGIC: &[u8; 8] = b"tnccl\0\x02\n";

/// A name that covers everything that affects the code.
pub(super) struct Key(String);

impl Key {
    pub(super) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut digest = Blake2s256::new();
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Self(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn file(&self) -> Option<PathBuf> {
        Some(folder()?.join(&self.0))
    }

    /// The code that is cached under this key.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let file = fs::read(self.file()?).ok()?;
        let rest = file.strip_prefix(MAGIC)?;
        let (digest, code) = rest.split_at_checked(32)?;
        let is_whole = Blake2s256::digest(code)[..] == *digest;
        if !is_whole {
            log::warn!(
                "a compiled kernel in the cache is damaged, and is compiled again: {}",
                self.0
            );
        }
        is_whole.then(|| code.to_vec())
    }

    /// Caches the code.
    pub(super) fn write(&self, code: &[u8]) {
        let Some(path) = self.file() else { return };
        let new =
            path.with_extension(format!("{}.{:?}", process::id(), std::thread::current().id()));
        let file = [MAGIC, &Blake2s256::digest(code)[..], code].concat();
        let written = make_folder(&path)
            .and_then(|()| fs::write(&new, file))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            log::debug!("a compiled kernel is not kept in {}: {error}", path.display());
            let _ = fs::remove_file(&new);
        }
    }
}

fn make_folder(path: &std::path::Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // Anyone who can write there chooses the code that GPUs run.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn folder() -> Option<PathBuf> {
    if let Some(named) = env::var_os(ENVIRONMENT) {
        return (!named.is_empty()).then(|| named.into());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(caches?.join("typed-nccl"))
}
