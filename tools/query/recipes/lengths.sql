SELECT name, CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ns) AS BIGINT) AS median_ns,
  CAST(percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_ns) AS BIGINT) AS p95_ns,
  min(duration_ns) AS min_ns, max(duration_ns) AS max_ns
FROM commands WHERE kind = 'NDRangeKernel' AND duration_ns IS NOT NULL GROUP BY name ORDER BY name
