SELECT function, CAST(sum(calls) AS BIGINT) AS calls, CAST(sum(duration_ns) AS BIGINT) AS host_ns,
  count(error) AS failed
FROM calls GROUP BY function ORDER BY host_ns DESC, function
