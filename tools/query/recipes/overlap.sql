WITH edges AS (
  SELECT host, device, start_ns AS moment, 1 AS step FROM commands WHERE outcome = 'timed'
  UNION ALL
  SELECT host, device, start_ns + duration_ns, -1 FROM commands WHERE outcome = 'timed'),
stretches AS (SELECT host, device,
  sum(step) OVER (PARTITION BY host, device ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS at_once,
  lead(moment) OVER (PARTITION BY host, device ORDER BY moment, step) - moment AS ns FROM edges)
SELECT host, device, CAST(at_once AS BIGINT) AS at_once, CAST(sum(ns) AS BIGINT) AS ns FROM stretches
WHERE at_once > 0 AND ns > 0 GROUP BY host, device, at_once ORDER BY host, device, at_once
