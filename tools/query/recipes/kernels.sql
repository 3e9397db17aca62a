SELECT name, count(*) AS launches, count(duration_ns) AS timed,
  CAST(sum(duration_ns) AS BIGINT) AS timed_ns,
  CAST(round(sum(duration_ns / coalesce(CAST(probability AS DOUBLE), 1))) AS BIGINT) AS estimated_ns,
  sum(energy_j / coalesce(CAST(probability AS DOUBLE), 1)) AS joules
FROM commands WHERE kind = 'NDRangeKernel' GROUP BY name ORDER BY estimated_ns DESC NULLS LAST, name
