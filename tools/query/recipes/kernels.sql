SELECT name, count(*) AS launches, count(duration_ns) AS timed,
  CAST(sum(duration_ns) AS BIGINT) AS timed_ns, sum(energy_j) AS joules
FROM commands WHERE kind = 'NDRangeKernel' GROUP BY name ORDER BY timed_ns DESC NULLS LAST, name
