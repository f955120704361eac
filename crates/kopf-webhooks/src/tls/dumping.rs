//! Writing of the CA bundle to a file, for manual requests.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Writes a file atomically: readers see either the old or the new content.
pub(super) async fn dump(path: &Path, text: &str) -> io::Result<()> {
    // Special files, such as a terminal or a pipe, are written in place.
    match tokio::fs::metadata(path).await {
        Ok(metadata) if !metadata.is_file() => return tokio::fs::write(path, text).await,
        _ => {}
    }
    // Links are followed.
    let target = tokio::fs::canonicalize(path).await;
    let target = target.unwrap_or_else(|_| path.to_owned());
    let Some(name) = target.file_name() else {
        return tokio::fs::write(path, text).await;
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(beside);
    tokio::fs::write(&beside, text).await?;
    let renamed = tokio::fs::rename(&beside, &target).await;
    if renamed.is_err() {
        // The error of the rename is returned, not that of the removal.
        let _ = tokio::fs::remove_file(&beside).await;
    }
    renamed
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_replaced_and_not_overwritten() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, link) = (folder.path().join("ca.pem"), folder.path().join("link"));
        dump(&path, "a long text").await.unwrap();
        // Readers of the old file can read it to its end.
        let kept = folder.path().join("kept");
        std::fs::hard_link(&path, &kept).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        dump(&link, "short").await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "a long text");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        dump(Path::new("/dev/null"), "nothing").await.unwrap();
        dump(&folder.path().join("no/such"), "x").await.unwrap_err();
    }
}
