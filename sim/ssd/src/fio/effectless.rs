//! fio's options without effect at the drive, and options with an effect that this model cannot produce.

/// Options without effect at the drive, whatever their value. They say how fio measures, logs and reports, and which CPU and memory it
/// uses. They also describe the data, and how files of a file system are made. `name*` is a family; `name=value` holds for that value
/// only.
const WITHOUT_EFFECT: &str = "\
    fixedbufs registerfiles hipri hipri_percentage sqthread_poll sqthread_poll_cpu nonvectored userspace_reap uncached \
    force_async libaio_vectored nowait thread threads use_os_rand clocksource gtod_* disable_* clat_percentiles lat_percentiles \
    slat_percentiles percentile_list significant_figures bwavgtime iopsavgtime write_bw_log write_lat_log write_iops_log \
    write_hist_log write_iolog log_* per_job_logs block_error_percentiles group_reporting unified_rw_reporting stats \
    numa_* cpus_allowed cpus_allowed_policy cpumask nice prio prioclass cmdprio* ioprio ioprioclass uid gid cgroup cgroup_weight \
    cgroup_nodelete job_start_clock_id mem iomem mem_align iomem_align hugepage-size lockmem invalidate fadvise_hint fadvise \
    fallocate create_serialize create_fsync create_on_open overwrite unlink unlink_each_loop openfiles file_service_type \
    directory filename filename_format unique_filename allow_file_create allow_mounted_write opendir file_append nrfiles=1 \
    ioscheduler zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage buffer_compress_chunk \
    dedupe_* randrepeat allrandrepeat random_generator softrandommap description desc continue_on_error ignore_error error_dump \
    io_submit_mode rate_cycle ratecycle thinktime_spin cmd_type=nvme kb_base=1024 unit_base atomic verify_async verify_async_cpus verify_dump verify_fatal verify_header_seed verify_interval verify_offset verify_pattern verify_pattern_interval verify_state_save verify_write_sequence \
    trim_verify_zero serialize_overlap=0 iodepth_batch=1 iodepth_batch_submit=1 sync=0 sync=none zonemode=none sprandom=0 fdp=0 pre_read=0 bs_is_seq_rand=0 bs_unaligned=0 create_only=0 \
    writefua=0 readfua=0 write_mode=write experimental_verify=0 rate_process=linear fsync_on_close=0 \
    experimental_verify=0 thinktime_blocks_type=complete end_fsync=0";

/// Options that the model cannot carry out, and the reason.
const UNABLE: [(&str, &str); 36] = [
    ("bs_is_seq_rand", "sizes by random and sequential are not modelled"),
    ("bs_unaligned", "a drive moves whole blocks"),
    ("cmd_type", "only cmd_type=nvme goes to an NVMe drive"),
    ("create_only", "there are no files to create"),
    ("cuda_io", "there is no GPU"),
    ("experimental_verify", "what was written is read again in the order of writing"),
    ("exec_postrun", "no commands are run"),
    ("exec_prerun", "no commands are run"),
    ("fdp", "no profile has a drive with Flexible Data Placement"),
    ("iodepth_batch", "I/Os are submitted one by one"),
    ("iodepth_batch_complete", "completions are taken as they come"),
    ("iodepth_batch_complete_max", "completions are taken as they come"),
    ("iodepth_batch_complete_min", "completions are taken as they come"),
    ("iodepth_batch_submit", "I/Os are submitted one by one"),
    ("iodepth_low", "a slot is used again as soon as it is free"),
    ("kb_base", "sizes are read with kb_base=1024"),
    ("max_latency", "no job ends because an I/O is slow"),
    ("md_per_io_size", "no profile has a drive with metadata"),
    ("nrfiles", "a job has one file: the drive"),
    ("pi_act", "no profile has a drive with protection information"),
    ("pi_chk", "no profile has a drive with protection information"),
    ("pre_read", "there is no page cache"),
    ("rate_iops_min", "no job ends because it is slow"),
    ("rate_min", "no job ends because it is slow"),
    ("read_iolog", "give the log as a plan's `trace = \"file.iolog\"`"),
    ("readfua", "reads have no FUA bit here"),
    ("serialize_overlap", "overlapping I/Os do not wait for each other"),
    ("sprandom", "give the drive's condition in a plan"),
    ("sync", "writes have no FUA bit here: use fsync=1"),
    ("sync_file_range", "there is no page cache"),
    ("thinktime_iotime", "thinktime goes by thinktime_blocks"),
    ("trim_percentage", "trims of a job come from rw"),
    ("verify_only", "nothing is known of what an earlier run wrote"),
    ("verify_state_load", "nothing is known of what an earlier run wrote"),
    ("write_mode", "use rw=write or rw=trim"),
    ("writefua", "writes have no FUA bit here: use fsync=1"),
];

/// Whether the option changes nothing at the drive.
pub fn without_effect(key: &str, value: &str) -> bool {
    WITHOUT_EFFECT.split_ascii_whitespace().any(|entry| match (entry.split_once('='), entry.strip_suffix('*')) {
        (Some((name, only)), _) => key == name && value == only,
        (None, Some(family)) => key.starts_with(family) && unable(key).is_none(),
        (None, None) => key == entry,
    })
}

/// Options without effect that need no note to the user: they say where and what, not how.
pub const UNTOLD: [&str; 5] = ["filename", "directory", "description", "group_reporting", "randrepeat"];

/// Returns the reason why the model cannot carry out an option, if it cannot.
pub fn unable(key: &str) -> Option<&'static str> {
    let aliases = [("rate_iops_minimum", "rate_iops_min"), ("ratemin", "rate_min")];
    let key = aliases.iter().find(|a| a.0 == key).map_or(key, |a| a.1);
    UNABLE.iter().find(|u| u.0 == key).map(|u| u.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_either_without_effect_or_beyond_the_model() {
        for (key, value) in
            [("fixedbufs", "1"), ("log_avg_msec", "100"), ("nrfiles", "1"), ("fdp", "0"), ("sync", "none")]
        {
            assert!(without_effect(key, value), "{key}={value}");
        }
        for (key, value) in [("nrfiles", "4"), ("fdp", "1"), ("sync", "1"), ("iodepth_batch", "8"), ("rw", "read")] {
            assert!(!without_effect(key, value), "{key}={value}");
        }
        assert!(unable("fdp").is_some() && unable("ratemin").is_some() && unable("rw").is_none());
    }
}
