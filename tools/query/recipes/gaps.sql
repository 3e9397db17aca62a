SELECT process, queue, CAST(sum(gap) AS BIGINT) AS idle_ns, max(gap) AS longest_ns, count(*) AS gaps
FROM (SELECT process, queue, start_ns - max(start_ns + duration_ns) OVER (PARTITION BY process, queue
  ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap
  FROM commands WHERE outcome = 'timed') AS pauses
WHERE gap > 0 GROUP BY process, queue ORDER BY idle_ns DESC, process, queue
