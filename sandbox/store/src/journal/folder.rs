//! The files of a data folder.
//!
//! | file | content |
//! |---|---|
//! | `format` | the number of the format, as text |
//! | `lock` | empty; locked by the process that uses the folder |
//! | `objects-NNN.log` | the log; only the one with the highest number is used |

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::error::DataError;
use super::frame;
use super::replay::{Recovered, replay};

/// The version of the format. Incremented by changes that older versions cannot read.
pub(super) const FORMAT: u32 = 1;
pub(super) const FILE_HEADER: &[u8] = b"kopf-sandbox log 1\n";

/// The open files of a folder.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    number: u64,
    log: File,
    pub(super) size: u64,
    /// Locked for as long as the folder is used.
    _lock: File,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) files: Files,
    pub(super) recovered: Recovered,
}

/// Opens a folder or creates it.
pub(super) fn open(folder: &Path) -> Result<Opened, DataError> {
    fs::create_dir_all(folder)?;
    check_format(folder)?;
    let lock = lock(folder)?;
    // Checked again under the lock: another process may have created the folder meanwhile.
    let is_new = check_format(folder)?;
    if is_new {
        let text = format!("{FORMAT}\n");
        replace(folder, "format", |file| file.write_all(text.as_bytes()))?;
    }
    let numbers = logs(folder)?;
    let Some(&number) = numbers.last() else {
        let files = Files::create(folder, 1, lock, &Recovered::default())?;
        return Ok(Opened {
            files,
            recovered: Recovered::default(),
        });
    };
    let path = log_path(folder, number);
    let replayed = replay(&path)?;
    let log = OpenOptions::new().append(true).open(&path)?;
    if log.metadata()?.len() > replayed.end {
        log.set_len(replayed.end)?;
        log.sync_all()?;
    }
    remove_others(folder, number)?;
    let files = Files {
        folder: folder.to_owned(),
        number,
        log,
        size: replayed.end,
        _lock: lock,
    };
    Ok(Opened {
        files,
        recovered: replayed.recovered,
    })
}

impl Files {
    fn create(
        folder: &Path,
        number: u64,
        lock: File,
        content: &Recovered,
    ) -> Result<Self, DataError> {
        let (log, size) = write_log(folder, number, content)?;
        Ok(Self {
            folder: folder.to_owned(),
            number,
            log,
            size,
            _lock: lock,
        })
    }

    /// Appends a frame and calls fsync.
    pub(super) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let header = frame::header(payload)?;
        self.log.write_all(&header)?;
        self.log.write_all(payload)?;
        self.log.sync_data()?;
        self.size += (header.len() + payload.len()) as u64;
        Ok(())
    }

    /// Starts a new log with the remaining objects, and removes the previous one.
    pub(super) fn compact(&mut self) -> Result<(), DataError> {
        let replayed = replay(&log_path(&self.folder, self.number))?;
        let number = self.number + 1;
        let (log, size) = write_log(&self.folder, number, &replayed.recovered)?;
        self.number = number;
        self.log = log;
        self.size = size;
        remove_others(&self.folder, number)?;
        Ok(())
    }
}

/// Writes a log atomically.
fn write_log(folder: &Path, number: u64, content: &Recovered) -> io::Result<(File, u64)> {
    let name = log_name(number);
    replace(folder, &name, |file| {
        file.write_all(FILE_HEADER)?;
        content.encode(|part| {
            file.write_all(&frame::header(part)?)?;
            file.write_all(part)
        })
    })?;
    let log = OpenOptions::new().append(true).open(folder.join(name))?;
    let size = log.metadata()?.len();
    Ok((log, size))
}

/// Writes a file under a temporary name, calls fsync and renames it.
fn replace(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.new"));
    let mut file = File::create(&temporary)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(name))?;
    sync_folder(folder)
}

/// Makes renames durable on platforms where folders can be opened.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<File, DataError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DataError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Returns `true` if the folder is new.
fn check_format(folder: &Path) -> Result<bool, DataError> {
    match fs::read_to_string(folder.join("format")) {
        Ok(text) if text.trim() == FORMAT.to_string() => Ok(false),
        Ok(text) => Err(DataError::Format {
            found: text.trim().chars().take(40).collect(),
            expected: FORMAT,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            for entry in fs::read_dir(folder)? {
                let name = entry?.file_name();
                if name != "lock" && name != "format.new" {
                    return Err(DataError::Foreign);
                }
            }
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

fn log_name(number: u64) -> String {
    format!("objects-{number:06}.log")
}

fn log_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(log_name(number))
}

/// Returns the numbers of the logs in a folder, in order.
fn logs(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number: Option<u64> = name
            .to_str()
            .and_then(|name| name.strip_prefix("objects-")?.strip_suffix(".log"))
            .and_then(|number| number.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes older logs, and newer ones that are incomplete.
fn remove_others(folder: &Path, number: u64) -> io::Result<()> {
    for other in logs(folder)? {
        if other != number {
            fs::remove_file(log_path(folder, other))?;
        }
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "new") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
