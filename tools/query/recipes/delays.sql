SELECT process, queue, count(*) AS commands, CAST(sum(queued_to_submit_ns) AS BIGINT) AS queued_ns,
  CAST(sum(submit_to_start_ns) AS BIGINT) AS submitted_ns, max(submit_to_start_ns) AS longest_ns
FROM commands WHERE outcome = 'timed' GROUP BY process, queue
ORDER BY submitted_ns DESC NULLS LAST, process, queue
